"""HTTP: bytes from a client -> `ApplyRequest` -> `service` -> bytes to the client.

A request passes `calls` (id, log line, last resort), `auth` and `limits`, then the file of its dialect
(`native`, `openai`, `responses`); `dialect` has what they share, `answer` the one model of a result, `errors`
the statuses.  `app` puts all of it together.  Nothing here decides about an edit, and nothing here imports torch.
"""
