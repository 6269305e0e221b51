"""A target on another server that speaks OpenAI's chat completions.

    messages (request, answer) -> client (where, as whom, how patient; one call, its retries) -> target

The edit is read, merged and checked here; the server chooses the tokens.  The answer lacks what the server does not
report.
"""
