"""HTTP: bytes from a client -> `ApplyRequest` -> `service` -> bytes to the client.

`app` puts the application together; one file is one dialect (`native`); `schema` and `answer` are what travels,
`errors` gives every error its status.  Nothing here decides about an edit, and nothing here imports torch.
"""
