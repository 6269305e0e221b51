"""Our drafts in vLLM's verifier: a plug-in that runs inside vLLM's workers, not in this service.

    message (what a request tells of its edit) -> edits (what is drafted from) -> requests (one request's draft, step by
    step) -> proposer (the class that vLLM is told to use); hook (how vLLM's requests reach it), versions (which vLLM)

The drafter is `drafting.copy`, as everywhere.  A room of its own in the layers, above prompts and drafting: it is
put together by vLLM, from `--speculative-config` and an entry point of the group `vllm.general_plugins`.
"""
