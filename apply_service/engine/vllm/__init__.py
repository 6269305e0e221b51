"""Our drafts in vLLM's verifier: a plug-in that runs inside vLLM's workers, not in this service.

`message`: how a request sends its edit; `proposer`: the class that vLLM is configured with, and the hook by which
requests reach it.  The drafter is `drafting.copy`, as everywhere.  In the layers it is above prompts and drafting: vLLM
puts it together, from `--speculative-config` and an entry point of the group `vllm.general_plugins`.
"""
