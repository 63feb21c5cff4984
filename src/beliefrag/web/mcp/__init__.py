"""The MCP server: the tools `ask` and `search` for agents, over stdio or HTTP; needs `pip install 'beliefrag[mcp]'`."""

from beliefrag.errors import MissingExtra

try:
    import mcp.server  # noqa: F401
except ImportError as error:
    raise MissingExtra("The MCP server", "mcp", error) from error

from beliefrag.web.mcp.mcp_app import create_mcp_app, serve_mcp_http, serve_mcp_stdio

__all__ = ["create_mcp_app", "serve_mcp_http", "serve_mcp_stdio"]
