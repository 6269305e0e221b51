"""MCP: the tool `edit_file` for coding agents.

`arguments` reads what agents send, `editing` reads, edits and writes the file, `answer` says what happened, `server`
puts them behind the protocol.  Who applies the edit is handed in: an engine in this process, or a running service.
"""
