"""The MCP server: the tools `ask` and `search` for agents, over stdio or HTTP; needs `pip install 'beliefrag[mcp]'`."""

from beliefrag.errors import MissingExtra

try:
    import mcp.server  # noqa: F401
except ImportError as error:
    raise MissingExtra("The MCP server", "mcp", error) from error
