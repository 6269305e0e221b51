"""MCP: the tool `edit_file` for coding agents.

`tool` reads what agents send and says what happened, behind the official SDK's protocol; `editing` reads, edits and
writes the file.  Who applies the edit is handed in: an engine in this process, or a running service.
"""
