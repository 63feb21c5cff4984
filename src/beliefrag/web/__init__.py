"""The servers: answers over HTTP and MCP, and the viewer's pages. They share authentication, limits and the log."""
