"""A target on another server that speaks OpenAI's chat completions: asked by text, answered by text.

    endpoint (where, as whom, how patient) -> messages (request, answer) -> client (one call, its retries) -> target

What is read, merged, checked and put back stays here; tokens are chosen there.  What such a server does not report is
absent in the answer.
"""
