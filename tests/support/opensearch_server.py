"""A stand-in for OpenSearch that takes only documented requests and replies in the documented forms.

It knows what the adapter uses: info, indices, documents with optimistic concurrency, bulk, mget, search, multi-search
and scroll. What it does not know, it refuses as a server would. A document is found by a search only after a refresh. A
test can let it be busy, lose a shard, time out or stall.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Reply = tuple[int, Any]
BODY_KEYS = {"query", "size", "_source", "timeout", "track_total_hits", "sort", "from", "aggs"}
HEADER_KEYS = {"index", "search_type", "preference", "routing", "allow_no_indices", "ignore_unavailable"}
FIELD_KEYS = {"type", "index", "analyzer", "similarity", "index_options", "doc_values"}


class Refused(Exception):
    """A request that a server would refuse."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.reply: Reply = (status, {"error": {"type": kind, "reason": reason, "root_cause": []}, "status": status})


def bad(reason: str) -> Refused:
    return Refused(400, "illegal_argument_exception", reason)


class Index:
    """The documents of one index, and those of them that searches see."""

    def __init__(self, settings: dict[str, Any], mappings: dict[str, Any]) -> None:
        self.settings, self.mappings = settings, mappings
        self.documents: dict[str, tuple[int, dict[str, Any]]] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        self.next_number = 0

    def refresh(self) -> None:
        self.seen = {name: value for name, (_, value) in self.documents.items()}

    def put(self, name: str, value: dict[str, Any]) -> int:
        if self.mappings.get("dynamic") == "strict":
            for field in value:
                if field not in self.mappings["properties"]:
                    raise Refused(400, "strict_dynamic_mapping_exception", f"[{field}] is not allowed")
        if not name or len(name.encode()) > 512:
            raise bad("id is too long, must be no longer than 512 bytes")
        self.documents[name] = (self.next_number, value)
        self.next_number += 1
        return self.next_number - 1

    def matches(self, query: dict[str, Any]) -> dict[str, float]:
        (kind, inside), *more = query.items()
        if more:
            raise bad("[query] malformed, more than one clause")
        if kind == "match_all":
            return dict.fromkeys(self.seen, 1.0)
        if kind == "bool":
            return self.combine(inside)
        if kind == "ids":
            return {name: 1.0 for name in inside["values"] if name in self.seen}
        if kind == "terms":
            (field, values), *_ = inside.items()
            return {n: 1.0 for n, v in self.seen.items() if set(values) & set(_list(v.get(field)))}
        if kind == "match":
            (field, options), *_ = inside.items()
            if set(options) - {"query", "operator"}:
                raise bad("[match] unknown option")
            return self.rank(field, options["query"])
        if kind == "multi_match":
            if inside["type"] != "most_fields":
                raise bad("not in this stand-in")
            total: defaultdict[str, float] = defaultdict(float)
            for field in inside["fields"]:
                for name, score in self.rank(field, inside["query"]).items():
                    total[name] += score
            return dict(total)
        raise Refused(400, "parsing_exception", f"unknown query [{kind}]")

    def combine(self, parts: dict[str, Any]) -> dict[str, float]:
        if set(parts) - {"must", "filter", "should", "must_not", "minimum_should_match"}:
            raise bad("[bool] unknown option")
        scores = dict.fromkeys(self.seen, 0.0)
        for kind in ("must", "filter"):
            for part in parts.get(kind, []):
                found = self.matches(part)
                scores = {n: s + found[n] * (kind == "must") for n, s in scores.items() if n in found}
        if should := [self.matches(part) for part in parts.get("should", [])]:
            scores = {n: s for n, s in scores.items() if any(n in found for found in should)}
        excluded = [self.matches(part) for part in parts.get("must_not", [])]
        return {n: s for n, s in scores.items() if not any(n in found for found in excluded)}

    def values(self, composite: dict[str, Any]) -> dict[str, Any]:
        ((name, how),) = composite["sources"][0].items()
        field = how["terms"]["field"]
        if self.mappings["properties"][field] != {"type": "keyword"}:
            raise bad(f"Can't load fielddata on [{field}]")
        after = composite.get("after", {}).get(name, "")
        held = sorted({each for value in self.seen.values() for each in _list(value.get(field)) if each > after})
        page = held[: composite["size"]]
        buckets = [{"key": {name: each}, "doc_count": 1} for each in page]
        return {"buckets": buckets} | ({"after_key": {name: page[-1]}} if page else {})

    def rank(self, field: str, text: str) -> dict[str, float]:
        how = self.mappings["properties"].get(field, {})
        if how.get("type") != "text" or how.get("index") is False:
            raise bad(f"Cannot search on field [{field}] since it is not indexed.")
        split = str.split if how.get("analyzer") == "terms" else lambda each: re.findall(r"\w+", each.lower())
        numbers = self.settings.get("index", {}).get("similarity", {}).get(how.get("similarity", ""), {})
        k1, b = float(numbers.get("k1", 1.2)), float(numbers.get("b", 0.75))
        words = {name: Counter(split(str(value.get(field, "")))) for name, value in self.seen.items()}
        mean = sum(map(sum, (each.values() for each in words.values()))) / max(1, len(words))
        scores: defaultdict[str, float] = defaultdict(float)
        terms = split(text)
        if len(set(terms)) > 1024:
            raise Refused(400, "search_phase_execution_exception", "too_many_clauses: maxClauseCount is set to 1024")
        for term in terms:
            having = [name for name, each in words.items() if term in each]
            rarity = math.log(1 + (len(words) - len(having) + 0.5) / (len(having) + 0.5))
            for name in having:
                count, length = words[name][term], sum(words[name].values())
                scores[name] += rarity * 2.2 * count / (count + k1 * (1 - b + b * length / mean))
        return dict(scores)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


class OpenSearchServer:
    """The stand-in, on loopback. `before` may change or replace the reply to a request."""

    def __init__(self) -> None:
        self.indices: dict[str, Index] = {}
        self.scrolls: dict[str, list[list[dict[str, Any]]]] = {}
        self.headers: list[dict[str, str]] = []
        self.spoil: Callable[[str, str, Reply], Reply | None] = lambda method, path, reply: reply
        self.distribution: str | None = "opensearch"
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"stand_in": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, target: str, body: bytes) -> Reply:
        with self._lock:
            try:
                reply = self._route(method, target, body)
            except Refused as refused:
                reply = refused.reply
        spoiled = self.spoil(method, target, reply)
        return reply if spoiled is None else spoiled

    def _route(self, method: str, target: str, body: bytes) -> Reply:
        parts = urlsplit(target)
        options = {key: values[0] for key, values in parse_qs(parts.query).items()}
        path = [unquote(each) for each in parts.path.strip("/").split("/")]
        match (method, path):
            case ("GET", [""]):
                version = {"number": "3.1.0"} | ({"distribution": self.distribution} if self.distribution else {})
                return 200, {"cluster_name": "stand-in", "version": version, "tagline": ""}
            case ("POST", [name, "_bulk"]):
                return self._bulk(self._find(name), _lines(body), options)
            case ("POST", ["_msearch"]):
                return self._multi_search(_lines(body))
            case ("POST", ["_search", "scroll"]):
                return self._scroll(json.loads(body)["scroll_id"])
            case ("DELETE", ["_search", "scroll"]):
                return 200, {"succeeded": True, "num_freed": 1}
            case ("PUT", [name]):
                return self._create(name, json.loads(body))
        if path[0] not in self.indices and options.get("ignore_unavailable") == "true":
            return 200, {}
        index = self._find(path[0])
        match (method, path[1:]):
            case ("GET", []):
                return 200, {path[0]: {"aliases": {}, "mappings": index.mappings, "settings": index.settings}}
            case ("POST", ["_refresh" | "_forcemerge"]):
                index.refresh()
                return 200, {"_shards": _shards()}
            case ("GET" | "POST", ["_count"]):
                return 200, {"count": len(index.seen), "_shards": _shards()}
            case ("POST" | "GET", ["_mget"]):
                docs = [self._document(path[0], index, each) for each in json.loads(body)["ids"]]
                return 200, {"docs": docs}
            case ("POST" | "GET", ["_search"]):
                return self._search(path[0], json.loads(body or b"{}"), options)
            case ("GET", ["_doc", name]):
                found = self._document(path[0], index, name)
                return (200 if found["found"] else 404), found
            case ("PUT" | "POST", ["_doc", name]):
                return self._put(index, name, json.loads(body), options)
        raise Refused(405, "method_not_allowed", f"{method} {target} is not in this stand-in")

    def _find(self, name: str) -> Index:
        if name not in self.indices:
            raise Refused(404, "index_not_found_exception", f"no such index [{name}]")
        return self.indices[name]

    def _create(self, name: str, body: dict[str, Any]) -> Reply:
        if name in self.indices:
            raise Refused(400, "resource_already_exists_exception", f"index [{name}] already exists")
        if set(body) - {"settings", "mappings", "aliases"} or name != name.lower():
            raise bad("unknown key for create index")
        for field in body["mappings"]["properties"].values():
            if set(field) - FIELD_KEYS or field["type"] not in {"text", "keyword"}:
                raise Refused(400, "mapper_parsing_exception", f"unknown parameter in {field}")
        self.indices[name] = Index(body.get("settings", {}), body["mappings"])
        return 200, {"acknowledged": True, "shards_acknowledged": True, "index": name}

    def _document(self, name: str, index: Index, key: str) -> dict[str, Any]:
        if key not in index.documents:
            return {"_index": name, "_id": key, "found": False}
        number, value = index.documents[key]
        return {"_index": name, "_id": key, "found": True, "_seq_no": number, "_primary_term": 1, "_source": value}

    def _put(self, index: Index, key: str, value: dict[str, Any], options: dict[str, str]) -> Reply:
        held = index.documents.get(key)
        if "if_seq_no" in options and (held is None or held[0] != int(options["if_seq_no"])):
            raise Refused(409, "version_conflict_engine_exception", f"[{key}]: version conflict")
        number = index.put(key, value)
        if options.get("refresh") == "true":
            index.refresh()
        return (200 if held else 201), {"_id": key, "result": "updated", "_seq_no": number, "_primary_term": 1}

    def _bulk(self, index: Index, lines: list[dict[str, Any]], options: dict[str, str]) -> Reply:
        items: list[dict[str, Any]] = []
        rest = iter(lines)
        for action in rest:
            (kind, where), *_ = action.items()
            if kind == "delete":
                found = index.documents.pop(where["_id"], None)
                items.append({"delete": {"_id": where["_id"], "status": 200 if found else 404}})
            elif kind == "update":
                value = next(rest)["doc"]
                held = index.documents.get(where["_id"])
                if held:
                    index.put(where["_id"], held[1] | value)
                items.append({"update": {"_id": where["_id"], "status": 200 if held else 404}})
            elif kind == "index":
                try:
                    index.put(where["_id"], next(rest))
                    items.append({"index": {"_id": where["_id"], "status": 201}})
                except Refused as refused:
                    error = refused.reply[1]["error"]
                    items.append({"index": {"_id": where["_id"], "status": 400, "error": error}})
            else:
                raise bad(f"Malformed action/metadata line: {kind}")
        if options.get("refresh") == "true":
            index.refresh()
        return 200, {"took": 1, "errors": any(next(iter(i.values()))["status"] >= 300 for i in items), "items": items}

    def _multi_search(self, lines: list[dict[str, Any]]) -> Reply:
        replies = []
        for header, body in zip(lines[::2], lines[1::2], strict=True):
            if set(header) - HEADER_KEYS:
                raise bad(f"key [{set(header) - HEADER_KEYS}] is not supported in the metadata section")
            try:
                replies.append({**self._search(header["index"], body, {})[1], "status": 200})
            except Refused as refused:
                replies.append(refused.reply[1])
        return 200, {"took": 1, "responses": replies}

    def _search(self, name: str, body: dict[str, Any], options: dict[str, str]) -> Reply:
        if set(body) - BODY_KEYS:
            raise Refused(400, "parsing_exception", f"unknown key {set(body) - BODY_KEYS}")
        index = self._find(name)
        size = int(options.get("size", body.get("size", 10)))
        window = int(index.settings.get("index", {}).get("max_result_window", 10_000))
        if size > window:
            raise bad(f"Result window is too large, from + size must be less than or equal to: [{window}]")
        scores = index.matches(body.get("query", {"match_all": {}}))
        order = sorted(scores, key=lambda each: -scores[each])
        for by in body.get("sort", []):
            if isinstance(by, dict):
                (field, _), *_ = by.items()
                order.sort(key=lambda each: str(index.seen[each][field]).encode())
        wanted = body.get("_source", True)
        hits = [
            {"_index": name, "_id": each, "_score": scores[each], "_source": _pick(index.seen[each], wanted)}
            for each in order
        ]
        reply: dict[str, Any] = {"took": 1, "timed_out": False, "_shards": _shards()}
        if "scroll" in options:
            key = f"scroll-{len(self.scrolls)}"
            self.scrolls[key] = [hits[at : at + size] for at in range(0, len(hits), size)]
            return 200, {**self._scroll(key)[1], "_scroll_id": key}
        total = {"value": len(hits), "relation": "eq"}
        if aggregations := body.get("aggs"):
            reply["aggregations"] = {name: index.values(each["composite"]) for name, each in aggregations.items()}
        return 200, {**reply, "hits": {"total": total, "max_score": None, "hits": hits[:size]}}

    def _scroll(self, key: str) -> Reply:
        pages = self.scrolls[key]
        hits = pages.pop(0) if pages else []
        return 200, {"_scroll_id": key, "timed_out": False, "_shards": _shards(), "hits": {"hits": hits}}


def _pick(value: dict[str, Any], wanted: Any) -> dict[str, Any]:
    if isinstance(wanted, bool):
        return value if wanted else {}
    return {name: each for name, each in value.items() if name in wanted}


def _shards() -> dict[str, Any]:
    return {"total": 2, "successful": 2, "skipped": 0, "failed": 0}


def _lines(body: bytes) -> list[dict[str, Any]]:
    if not body.endswith(b"\n"):
        raise bad("The bulk request must be terminated by a newline [\\n]")
    return [json.loads(line) for line in body.splitlines()]


class _Handler(BaseHTTPRequestHandler):
    stand_in: OpenSearchServer
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.stand_in.headers.append({name.lower(): value for name, value in self.headers.items()})
        status, value = self.stand_in.answer(self.command, self.path, body)
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=UTF-8")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


def stall(seconds: float) -> Callable[[str, str, Reply], Reply | None]:
    """Let every search wait."""

    def wait(method: str, path: str, reply: Reply) -> Reply | None:
        if "_msearch" in path:
            time.sleep(seconds)
        return reply

    return wait
