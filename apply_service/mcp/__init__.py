"""MCP: the tool `edit_file` for coding agents."""
