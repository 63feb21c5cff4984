"""The official MCP client starts `beliefrag serve mcp`, searches, and asks while it is told how far things are."""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters

SERVER = StdioServerParameters(
    command=sys.executable, args=["-m", "beliefrag", "serve", "mcp", "--docs", "handbook/"], env=dict(os.environ)
)


async def told(progress: float, total: float | None, message: str | None) -> None:
    """Show what the server does."""
    print("...", message)


async def main() -> None:
    """Search, then ask."""
    async with Client(SERVER) as client:
        found = await client.call_tool("search", {"query": "travel limit", "k": 3})
        for passage in found.structured_content["passages"]:
            print(f"{passage['score']:.2f} {passage['title']}")
        asked = await client.call_tool(
            "ask", {"question": "Who approves travel above the limit?"}, progress_callback=told
        )
        print("failed:" if asked.is_error else "answer:", asked.content[0].text)


asyncio.run(main())
