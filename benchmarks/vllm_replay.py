"""vLLM's own drafters and ours in one vLLM whose choices are the right answers: tokens a second of processor time.

    VENV/bin/python -m benchmarks.vllm_replay --cases CASES.json [--plain-tokens 64] [--out FILE.json]

Run by the interpreter of vLLM's environment, with VLLM_ENABLE_V1_MULTIPROCESSING=0; cases come from
`benchmarks.vllm_replay_prepare`.  The model is the embedded one with all its arithmetic, its logits then raised at the
known answer, so that what is timed is a model that makes just these choices.  One engine in one process serves one
request after the other, by each contender in turn; processor time is counted, which other load on the machine hardly
changes.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from apply_service.engine.loading import embedded_directory
from apply_service.engine.vllm.proposer import Limits, Proposer
from apply_service.engine.vllm.requests import HookRow
from apply_service.prompts.chat import Chat
from apply_service.prompts.chat_tokenizer import ChatTokenizer

CONTEXT, SPARE = 8192, 160
SETTINGS: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "ngram": {"num_speculative_tokens": 10, "prompt_lookup_min": 4, "prompt_lookup_max": 4},
    "ngram-127": {"num_speculative_tokens": 127, "prompt_lookup_min": 4, "prompt_lookup_max": 4},
    "suffix": {"num_speculative_tokens": 32},
    "shown": {},
    "told": {},
}
TEMPLATE = (
    "{% for m in messages %}<|original|>{{ m['content'] }}<|update|>{% endfor %}"
    "{% if add_generation_prompt %}<|merge|>{% endif %}"
)


def open_chat() -> Chat:
    """The chat format over the embedded model's vocabulary: its control tokens frame the messages."""
    from transformers import PreTrainedTokenizerFast

    file = embedded_directory() / "tokenizer.json"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token="<|end|>")
    tokenizer.chat_template = TEMPLATE
    return Chat(ChatTokenizer(tokenizer))


class Switch:
    """The proposer that vLLM makes: hands each request to the contender that is on, and sees to it that the model
    writes the answer."""

    now: Switch

    def __init__(self, vllm_config: Any) -> None:
        Switch.now = self
        self._config = vllm_config
        self._others = {name: self._open(name) for name in SETTINGS}
        self._name, self._n_written, self._number = "plain", 0, 0
        self._case: dict[str, Any] = {}
        self.counts: dict[str, int] = {}
        self.draft_s = 0.0

    def _open(self, name: str) -> Any:
        from vllm.v1.spec_decode.ngram_proposer import NgramProposer
        from vllm.v1.spec_decode.suffix_decoding import SuffixDecodingProposer

        if name in ("plain", "shown", "told"):
            return Proposer([open_chat()], Limits(127, CONTEXT, 2**20, 1))
        config = copy.copy(self._config)
        config.speculative_config = copy.copy(config.speculative_config)
        for key, value in SETTINGS[name].items():
            object.__setattr__(config.speculative_config, key, value)
        return SuffixDecodingProposer(config) if name == "suffix" else NgramProposer(config)

    def load_model(self, model: Any, *_: Any, **__: Any) -> None:
        """Wrap the model's logits: row i of a step decides the i-th token after what is written."""
        compute = model.compute_logits

        def answered(hidden: Any, *args: Any, **kwargs: Any) -> Any:
            logits = compute(hidden, *args, **kwargs)
            answer = self._case.get("answer_ids")
            if answer:
                for row in range(len(logits)):
                    logits[row, answer[min(self._n_written + row, len(answer) - 1)]] = 1e4
            return logits

        model.compute_logits = answered

    def begin(self, name: str, case: dict[str, Any]) -> None:
        """The next request is this one."""
        self._name, self._case, self._n_written = name, case, 0
        self._number += 1
        self.counts, self.draft_s = {"steps": 0, "drafted": 0, "accepted": 0}, 0.0

    def propose(self, sampled: Any, counts: Any, tokens: Any, **_: Any) -> list[list[int]]:
        if not any(sampled):
            return [[] for _ in sampled]
        started = time.process_time()
        self._n_written += len(sampled[0])
        self.counts["steps"] += 1
        self.counts["accepted"] += len(sampled[0]) - 1
        drafts = self._draft([list(map(int, row)) for row in sampled], counts, tokens)
        self.counts["drafted"] += len(drafts[0])
        self.draft_s += time.process_time() - started
        return [list(map(int, draft)) for draft in drafts]

    def _draft(self, sampled: list[list[int]], counts: Any, tokens: Any) -> Any:
        name, other, n_prompt = self._name, self._others[self._name], len(self._case["prompt_ids"])
        request = f"{name}-{self._number}"
        if name == "plain":
            return [[]]
        if name.startswith("ngram"):
            return other.propose(SETTINGS[name]["num_speculative_tokens"], sampled, counts, tokens)
        if name == "suffix":
            batch = SimpleNamespace(
                req_ids=[request],
                req_id_to_index={request: 0},
                num_prompt_tokens=[n_prompt],
                num_tokens_no_spec=counts,
                token_ids_cpu=tokens,
            )
            return other.propose(SETTINGS[name]["num_speculative_tokens"], batch, sampled)
        other.tell([HookRow(request, n_prompt, self._case["told"] if name == "told" else None)], [request])
        return other.propose(sampled, counts, tokens)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--minutes", type=float, default=15.0, help="begin no further edit after that")
    parser.add_argument("--plain-tokens", type=int, default=64, help="undrafted steps to time; each is like the next")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    given = json.loads(options.cases.read_text(encoding="utf-8"))
    load_before = os.getloadavg()
    samples = run(given["cases"][: options.limit], options.minutes, options.plain_tokens)
    import vllm

    result = {"kind": "vllm-replay", "schema_version": 1, "vllm": vllm.__version__, "settings": SETTINGS}
    result |= {"provenance": given["provenance"], "load_before": load_before, "load_after": os.getloadavg()}
    result |= {"summary": summary_of(samples), "samples": samples}
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["summary"], indent=1))
    return 0


def run(cases: Sequence[dict[str, Any]], minutes: float, plain_tokens: int) -> list[dict[str, Any]]:
    """Every edit by every contender in a random order, once a warm-up is over."""
    engine = _engine()
    samples: list[dict[str, Any]] = []
    deadline, order = time.monotonic() + 60 * minutes, random.Random(1)
    for number, case in enumerate([cases[0], *cases]):
        if time.monotonic() > deadline:
            break
        names = order.sample(list(SETTINGS), len(SETTINGS))
        by = {name: _write(engine, name, case, plain_tokens) for name in names}
        if number:
            sizes = {"n_prompt": len(case["prompt_ids"]), "n_tokens": len(case["answer_ids"])}
            samples.append({"id": case["id"], **sizes, "is_merge_right": case["is_merge_right"], "by": by})
        print(number, {name: round(by[name]["tok_s"]) for name in SETTINGS}, flush=True)
    return samples


def _engine() -> Any:
    from vllm import LLM

    return LLM(
        model=str(embedded_directory()),
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=CONTEXT,
        max_num_seqs=1,
        enforce_eager=True,
        enable_prefix_caching=False,
        distributed_executor_backend="uni",
        disable_log_stats=True,
        speculative_config={
            "method": "custom_class",
            "model": "benchmarks.vllm_replay.Switch",
            "num_speculative_tokens": 127,
        },
    )


def _write(engine: Any, name: str, case: dict[str, Any], plain_tokens: int) -> dict[str, Any]:
    from vllm import SamplingParams

    from benchmarks.vllm_replay import Switch as Loaded  # vLLM's own import of this module, not `__main__`

    answer = case["answer_ids"]
    n_tokens = min(plain_tokens, len(answer)) if name == "plain" else len(answer)
    times = []
    for limit in (1, n_tokens):
        Loaded.now.begin(name, case)
        params = SamplingParams(temperature=0.0, max_tokens=limit, stop_token_ids=[answer[-1]], detokenize=False)
        started = time.process_time()
        output = engine.generate([{"prompt_token_ids": case["prompt_ids"]}], params, use_tqdm=False)
        times.append(time.process_time() - started)
    ids = list(output[0].outputs[0].token_ids)
    if ids != answer[:n_tokens]:
        raise AssertionError(f"{name} wrote something else than the answer to {case['id']}")
    decode_s = times[1] - times[0]
    return {
        "n_tokens": len(ids),
        "decode_cpu_s": round(decode_s, 5),
        "prompt_cpu_s": round(times[0], 5),
        "draft_cpu_s": round(Loaded.now.draft_s, 5),
        "tok_s": (len(ids) - 1) / decode_s,
        **Loaded.now.counts,
    }


def summary_of(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By contender: tokens a second of processor time over all edits, steps, counters, and how much faster ours are."""
    found: dict[str, Any] = {}
    for name in SETTINGS:
        rows = [sample["by"][name] for sample in samples]
        total = {key: sum(row[key] for row in rows) for key in ("n_tokens", "steps", "drafted", "accepted")}
        seconds = sum(row["decode_cpu_s"] for row in rows)
        found[name] = {
            "n": len(rows),
            "tok_s": round((total["n_tokens"] - len(rows)) / seconds, 1),
            "tokens_per_step": round(total["n_tokens"] / total["steps"], 2),
            "draft_ms_per_step": round(1000 * sum(row["draft_cpu_s"] for row in rows) / total["steps"], 3),
            **total,
        }
    for name in ("shown", "told"):
        peers = [peer for peer in SETTINGS if peer != name]
        found[name]["speedup_over"] = {peer: round(found[name]["tok_s"] / found[peer]["tok_s"], 2) for peer in peers}
    return found


if __name__ == "__main__":
    sys.exit(main())
