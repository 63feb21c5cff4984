"""Run every reader on damaged files, and find those that crash it, exceed a limit or make a passage that is invalid.

    python -m benchmarks.fuzz_readers [--n 100000] [--formats pdf docx] [--seed 0] [--out FILE]

A file that a reader cannot use ends as `Unreadable`, or as another exception that the worker process reports; both are
counted. Files begin as valid ones and are changed by chance: bytes, runs, the pieces that a format is made of, and the
parts in an archive. Equal seeds give equal files, so a finding is repeated by its number. A run goes on where the
results file ends. Recognition of text in pictures is off: it takes a second a picture and sees only decoded pixels.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from PIL import Image

from beliefrag import __version__
from beliefrag.retrieval.documents import LONGEST, CorpusFile, Unreadable, count_words, cut_document, read_file
from beliefrag.retrieval.readers import ocr
from tests.support.formats import write_office

SECONDS = 5.0
"""Processor time that a file of at most `_LARGEST` bytes may take; it ends the process even within a library."""
MEMORY_MB = 512
"""Memory that a file may take beyond that of the process before it."""
_LARGEST = 65_536
_WAITING_SECONDS = 600
"""Seconds after which a process that uses no processor time hangs."""
_BATCH = 200
_MOST_FINDINGS = 20
_ARCHIVES = (".docx", ".pptx", ".odt", ".epub", ".xlsx", ".ods", ".zip")
_COMMON = (
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xcc\x81\xcc\xa3", b"\xed\xa0\x80", b"\\ud800", b"999999999999999999999",
    b"-1", b"1e400", b"\r", b"\n\n", b"\t", b" ", b'"', b"'", b"\xe2\x80\xa8", b"\xe4\xb8\xad", b"word. ", b"../",
        b"%s",
)  # fmt: skip
_XML = (b"<", b">", b"</", b"/>", b"<!--", b"-->", b"<![CDATA[", b"&#x110000;", b"&#0;", b"&lt;", b'="', b"<w:p>",
        b"</w:p>",
    b"<w:tbl>", b'<w:gridSpan w:val="99"/>', b'table:number-columns-repeated="1048576"',
        b'table:number-rows-repeated="65536"',
    b"<text:h>", b"<text:p>", b"<a:t>", b"<row>", b'<c r="XFD1048576"><v>1</v></c>',
        b'<!ENTITY a "&a;&a;">')  # fmt: skip
_WORDS: dict[str, tuple[bytes, ...]] = {
    ".md": (b"# ", b"###### ", b"```", b"~~~", b"[a](b", b'[a](b "', b"![", b"](", b"|", b"|---|", b"> ", b"- ",
        b"---\n",
        b"<!--", b"===\n", b"`", b"**", b"    ", b"[a]: b\n", b"\\"),
    ".html": (*_XML, b"<table>", b"<tr><td colspan=9999 rowspan=9999>", b"<h1>", b"</h1>", b"<h6>", b"<p>",
        b"<div>", b"<ul><li>",
        b"<script>", b"<style>", b"<title>", b'<meta charset="utf-7">', b'<meta charset="idna">', b"<a href=#x>",
        b"<pre>", b"<svg>"),
    ".rtf": (b"{", b"}", b"\\", b"\\'ff", b"\\u-1 ?", b"\\u55357 ?", b"\\par ", b"\\bin99999999 ",
        b"\\ansicpg65001", b"\\trowd",
        b"\\cell", b"\\row", b"{\\fonttbl", b"{\\*\\x", b"\\uc9"),
    ".csv": (b",", b";", b"|", b'""', b'"\n', b"text,", b"id,", b"title,", b"\n,,,,\n"),
    ".jsonl": (b"{", b"}", b"[", b"[[[[[[[[", b'{"text": "', b'"title": ', b'"id": ', b"null", b"true", b"NaN",
        b"\\u0000", b",", b":"),
    ".pdf": (b"obj\n", b"endobj\n", b"<<", b">>", b"[", b"]", b"/Kids", b"/Parent", b"1 0 R", b"2 0 R",
        b"stream\n", b"endstream", b"/Length",
        b"/Filter /FlateDecode", b"/Filter /ASCIIHexDecode", b" m ", b" l S ", b" re f ", b"BT ", b" Tj ET",
        b" Td ", b" Tf ", b"/Encrypt",
        b"xref", b"trailer", b"q ", b" cm ", b"/MediaBox [0 0 1e9 1e9]"),
    ".eml": (b"\n\n", b"Content-Type: multipart/mixed; boundary=a\n", b"--a\n", b"--a--\n",
        b"Content-Type: message/rfc822\n",
        b"Content-Transfer-Encoding: base64\n", b"Content-Transfer-Encoding: quoted-printable\n",
        b"charset=punycode", b"charset=x",
        b"=?utf-8?B?", b"=?x?Q?", b"?=", b"From: ", b"Date: Mon, 99 Xxx 99999 ", b"From a\n", b'filename="a.zip"',
        b"Content-Type: text/html\n"),
}  # fmt: skip
_WORDS[".mbox"] = _WORDS[".eml"]
_WORDS[".py"] = (
    b"def ",
    b"class ",
    b"(",
    b")",
    b'"""',
    b"\\\n",
    b"    ",
    b"@",
    b":",
    b"#",
    b"async ",
    b"lambda ",
    b"f'{",
)


_ELEMENT = re.compile(rb"(?P<start><(?P<name>[\w:]+)(?: [^<>]*)?>)(?P<text>[^<>]*)(?P<end></(?P=name)>)")
_NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"65536",
    b"1048576",
    b"900000000",
    b"99999999999999999999",
    b"",
    b"x",
    b"1e400",
    b"nan",
    b"\xcc\x81",
)


def write_seeds() -> dict[str, list[bytes]]:
    """Return valid files of each format, by the ending of the name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_office(folder)
        seeds: dict[str, list[bytes]] = {}
        for path in sorted(folder.iterdir()):
            seeds.setdefault(path.suffix, []).append(path.read_bytes())
    prose = "The harbour opened in 1921. Dr. Lind designed it, e.g. the pier.\n\n中文的句子。第二句！ สวัสดีครับ\n- one\n"
    page = "<html><head><title>Harbour</title></head><body><h1>Pier</h1><p><a href='b.html#x'>Then</a>.</p>"
    page += "<table><tr><th>City<th>Desks</tr><tr><td rowspan=2>Oslo<td>19</tr></table><ul><li>one</ul></body></html>"
    rows = '{"id": "a", "title": "Harbour", "text": "It opened in 1921."}\n{"text": "Ring the bell.", "source": "x"}\n'
    seeds[".txt"] = [prose.encode(), prose.encode("utf-16"), b"caf\xe9 in Windows-1252, na\xefve words"]
    seeds[".html"] = [page.encode()]
    seeds[".csv"] = [b'id,title,text\n1,Pier,It was built.\n2,Bell,"Rung, twice"\n', b"Item;Count\nbolt;3\nnut;4\n"]
    seeds[".jsonl"] = [rows.encode()]
    seeds[".jsonl.gz"] = [gzip.compress(rows.encode())]
    table = "| a | b |\n|---|---|\n| 1 | [x](y) |\n\n```\ncode\n```\n"
    seeds[".md"].append(f"---\ntitle: Harbour\n---\n# Pier\n\n{prose}\n## T\n\n{table}".encode())
    seeds[".png"] = [_write_picture(kind) for kind in ("PNG", "JPEG", "TIFF", "BMP", "WEBP")]
    return seeds


def _write_picture(kind: str) -> bytes:
    out = BytesIO()
    Image.new("RGB", (24, 8), "white").save(out, kind)
    return out.getvalue()


def make_file(ending: str, seeds: list[bytes], number: int, seed: int) -> bytes:
    """Return the damaged file with this number."""
    rng = random.Random(f"{seed} {ending} {number}")
    data = rng.choice(seeds)
    if ending == ".jsonl.gz" and rng.random() < 0.6:
        return gzip.compress(_damage(gzip.decompress(data), _WORDS[".jsonl"], rng), 1)
    if ending in _ARCHIVES and rng.random() < 0.8:
        return _damage_part(data, rng)
    return _damage(data, _WORDS.get(ending, ()), rng)


def _damage_part(data: bytes, rng: random.Random) -> bytes:
    """Return an archive with one or two of its parts damaged, renamed or missing."""
    out = BytesIO()
    with (
        zipfile.ZipFile(BytesIO(data)) as parts,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made,
    ):
        names = parts.namelist()
        # The parts with words are those that matter; a docx has a dozen others.
        likely = [
            name
            for name in names
            if any(word in name for word in ("document", "slide", "content", "sheet", "xhtml", "opf", "txt", "rels"))
        ]
        chosen = (
            {rng.choice(likely or names), rng.choice(names)} if rng.random() < 0.3 else {rng.choice(likely or names)}
        )
        for name in names:
            content = parts.read(name)
            if name in chosen and rng.random() < 0.05:
                continue
            if name in chosen:
                content = _change_element(content, rng) if rng.random() < 0.6 else _damage(content, _XML, rng)
            made.writestr(name, content)
    return out.getvalue()


def _change_element(data: bytes, rng: random.Random) -> bytes:
    """Repeat, nest, empty or refill an element, so that the XML stays well-formed."""
    found = list(_ELEMENT.finditer(data))
    if not found:
        return _damage(data, _XML, rng)
    one, many = rng.choice(found), rng.choice((2, 10, 300, 1000))
    start, text, end = one["start"], one["text"], one["end"]
    many = min(many, _LARGEST // len(one[0]))
    kind = rng.randrange(5)
    if kind == 0:
        new = one[0] * many
    elif kind == 1:
        new = start * many + text + end * many
    elif kind == 2:
        new = start + rng.choice(found)[0] + end
    elif kind == 3:
        new = start + rng.choice(_NUMBERS) * rng.choice((1, 1, 50)) + end
    else:
        new = re.sub(rb'"[^"<>]*"', lambda _: b'"%b"' % rng.choice(_NUMBERS), start) + text + end
    return data[: one.start()] + new + data[one.end() :]


def _damage(data: bytes, words: tuple[bytes, ...], rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 2, 8, 64, 512)))
        kind = rng.randrange(7)
        if kind == 0 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[end:]
        elif kind == 2:
            room = max(1, (_LARGEST - len(data)) // max(1, end - at))
            data = data[:at] + data[at:end] * min(room, rng.choice((2, 10, 100, 1000))) + data[end:]
        elif kind in (3, 4):
            word = b"".join(rng.choice((*words, *words, *_COMMON)) for _ in range(rng.choice((1, 1, 2, 4))))
            room = max(1, (_LARGEST - len(data)) // len(word))
            data = data[:at] + word * min(room, rng.choice((1, 1, 1, 3, 50, 2000))) + data[at:]
        elif kind == 5:
            other = rng.randrange(len(data) + 1)
            data = data[:at] + data[other : other + end - at] + data[end:]
        elif rng.random() < 0.3:
            data = data[:at]
        else:
            data = data[:at] + rng.randbytes(end - at) + data[end:]
    return data[:_LARGEST]


def read(name: str, data: bytes) -> str:
    """Read a file as a worker process does; return how it ended."""
    file = CorpusFile(name, name, BytesIO(data))
    try:
        for document in read_file(file):
            for passage in cut_document(document):
                json.dumps(
                    [passage.id, passage.title, passage.text, passage.place, passage.metadata], ensure_ascii=False
                ).encode()
                if (not document.own_id and count_words(passage.text) > LONGEST) or not passage.id.isprintable():
                    return "invalid passage"
    except Unreadable:
        return "unreadable"
    except MemoryError:
        return "too much memory"
    except UnicodeEncodeError:
        return "invalid passage"
    except Exception as problem:
        return f"raised {type(problem).__name__}"
    return "read"


def _read_batch(ending: str, seeds: list[bytes], numbers: range, seed: int, out: int, said: int) -> None:
    """Read files in a forked process, and write a line before and after each."""
    memory = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (memory + (MEMORY_MB << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - parsers print
        os.dup2(nowhere.fileno(), 1)
        os.dup2(said, 2)
    vars(ocr).update(_open_engine=lambda: None, shutil=SimpleNamespace(which=lambda _: None))
    for number in numbers:
        data = make_file(ending, seeds, number, seed)
        # Without a handler the signal ends the process, also while a library holds the interpreter.
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(_WAITING_SECONDS)
        os.write(out, b"%d " % number)
        began = time.process_time()
        try:
            how = read(f"file{ending}", data)
        except BaseException as problem:
            how = f"raised {type(problem).__name__}"
        os.write(out, b"%.4f %s\n" % (time.process_time() - began, how.encode()))


def fuzz(ending: str, seeds: list[bytes], numbers: range, seed: int) -> Iterator[tuple[int, float, str]]:
    """Yield the number of each file, the processor time for it and how it ended."""
    following = numbers.start
    while following < numbers.stop:
        source, sink = os.pipe()
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if not child:
                code = 1
                try:
                    os.close(source)
                    batch = range(following, min(following + _BATCH, numbers.stop))
                    _read_batch(ending, seeds, batch, seed, sink, said.fileno())
                    code = 0
                finally:
                    os._exit(code)
            os.close(sink)
            with os.fdopen(source, encoding="ascii") as lines:
                for line in lines:
                    if line.endswith("\n"):
                        number, seconds, how = line.split(" ", 2)
                        yield int(number), float(seconds), how.strip()
                        following = int(number) + 1
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            if status:
                yield following, SECONDS, _explain(status, said.read())
                following += 1


def _explain(status: int, said: bytes) -> str:
    if status in (-signal.SIGPROF, -signal.SIGALRM):
        return "too much time"
    # Rust ends the process where memory cannot be had.
    return "too much memory" if b"memory allocation of" in said else f"crashed with {status}"


def is_finding(how: str) -> bool:
    """Return whether a file that ended in this way is named in the results."""
    return how.startswith(("too much", "crashed", "invalid"))


def run(ending: str, seeds: list[bytes], numbers: range, seed: int, row: dict[str, Any]) -> None:
    """Add the results of these files to a row."""
    counts = Counter(row.get("ended", {}))
    for number, seconds, how in fuzz(ending, seeds, numbers, seed):
        counts[how] += 1
        if is_finding(how) and len(row.setdefault("findings", [])) < _MOST_FINDINGS:
            row["findings"].append([number, how])
        if how.startswith("raised"):
            row.setdefault("first_raised", {}).setdefault(how, number)
        if seconds > row.get("slowest", [0, 0])[1]:
            row["slowest"] = [number, seconds]
        row["files"] = number + 1
    row["ended"] = dict(counts.most_common())


def main() -> int:
    """Fuzz the formats in turns; return 1 if a reader crashed or made an invalid passage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000, help="files of each format")
    parser.add_argument("--formats", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after this time")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    known = (
        json.loads(given.out.read_text("utf-8"))
        if given.out and given.out.exists()
        else {"seed": given.seed, "formats": {}}
    )
    if known["seed"] != given.seed:
        raise SystemExit(f"{given.out} is of seed {known['seed']}")
    seeds, rows = write_seeds(), known["formats"]
    for ending in seeds:
        if ending != ".png":  # the threads of text recognition do not survive a fork
            read(f"file{ending}", seeds[ending][0])  # imports its libraries before the processes are forked
    chosen = [ending for ending in seeds if not given.formats or ending[1:] in given.formats]
    give_up = time.monotonic() + 60 * given.minutes
    while time.monotonic() < give_up:
        left = [ending for ending in chosen if rows.get(ending, {}).get("files", 0) < given.n]
        if not left:
            break
        for ending in left:
            done = rows.setdefault(ending, {}).get("files", 0)
            run(ending, seeds[ending], range(done, min(done + 2 * _BATCH, given.n)), given.seed, rows[ending])
        text = json.dumps(
            {"beliefrag": __version__, "seed": given.seed, "seconds": SECONDS, "memory_mb": MEMORY_MB, "formats": rows},
            indent=1,
        )
        if given.out:
            new = given.out.with_suffix(".new")
            new.write_text(text + "\n", encoding="utf-8")
            new.replace(given.out)
    for ending, row in rows.items():
        print(ending, json.dumps(row))
    # What takes too much time or memory is stopped by the limits of the worker processes.
    return int(any(not how.startswith("too much") for row in rows.values() for _, how in row.get("findings", ())))


if __name__ == "__main__":
    sys.exit(main())
