"""A chat server that takes the same time for every call: an asyncio server on loopback, in a process of its own.

    python -m benchmarks.harness.stub --latency 0.3

It prints its address and serves until it is killed. The reply to a request depends on its words alone, and differs
enough between requests that episodes take different ways.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness.material import name_of

__all__ = ["recorded", "stub"]

_RECORDED = "/recorded"


@contextmanager
def stub(latency: float, *, record: bool = False) -> Iterator[str]:
    """Yield the base URL of a server that answers each call `latency` seconds after it has read it.

    Args:
        latency: The time that every call takes.
        record: Keep the body of every call for `recorded`.
    """
    command = [sys.executable, "-m", "benchmarks.harness.stub", "--latency", str(latency)]
    command += ["--record"] if record else []
    # It is a module of this repository: it is found from there, wherever the caller works.
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            if not (url := process.stdout.readline().strip()):
                raise RuntimeError("the stub server did not start")
            yield url
        finally:
            process.kill()


def recorded(url: str) -> list[dict[str, Any]]:
    """Return the bodies of all calls since it was last asked for them."""
    with urllib.request.urlopen(url + _RECORDED) as response:
        bodies: list[dict[str, Any]] = json.load(response)
        return bodies


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    asyncio.run(_serve(given.latency, given.record))


async def _serve(latency: float, record: bool) -> None:
    calls: list[bytes] = []

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _head(reader):
            body = await reader.readexactly(_length(head))
            if _RECORDED.encode() in head.split(b"\r\n", 1)[0]:
                payload = b"[" + b",".join(calls) + b"]"
                calls.clear()
            else:
                if record:
                    calls.append(body)
                payload = _reply(json.loads(body))
                await asyncio.sleep(latency)
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(payload)
            )
            writer.write(payload)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=256)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _reply(body: dict[str, Any]) -> bytes:
    words = "\n".join(message["content"] for message in body["messages"])
    dice = hashlib.sha256(words.encode()).digest()
    text = _verdict(dice) if "response_format" in body else name_of(int.from_bytes(dice[:4]))
    used = {"prompt_tokens": len(words) // 4, "completion_tokens": len(text) // 4 + 1}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    completion = {"id": "stub", "object": "chat.completion", "created": 0, "model": body["model"]}
    return json.dumps({**completion, "choices": [choice], "usage": used}).encode()


def _verdict(dice: bytes) -> str:
    """Support all over the scale, now and then a conflict, and one flagged passage in four verdicts."""
    support = round(dice[0] / 255, 2)
    verdict = {"unhelpful_doc_ids": [1] if dice[1] < 64 else [], "support": support}
    verdict |= {"conflict": 0.8 if dice[2] < 32 else 0.0, "gap": round(1 - support, 2), "uncertainty": 0.3}
    return json.dumps(verdict)


if __name__ == "__main__":
    main()
