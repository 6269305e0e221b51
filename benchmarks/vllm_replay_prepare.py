"""Edits for `benchmarks.vllm_replay`, which runs where vLLM is and this project's other packages are not: prompts,
right answers and messages as JSON.

    python -m benchmarks.vllm_replay_prepare --data F.jsonl [--updates G.jsonl] [--limit 40] --out CASES.json
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

from apply_eval.datasets import EditRecord, join_updates, read_records
from apply_eval.provenance import provenance
from apply_eval.runners.request import RequestOptions, request_of
from apply_service.edits.fidelity import normalise
from apply_service.engine.vllm.message import encode_edit
from apply_service.errors import ApplyError
from apply_service.pipeline import read_edit
from apply_service.prompts.chat import Chat
from apply_service.syntax.languages import detect_language
from benchmarks.vllm_replay import CONTEXT, SPARE, open_chat

LEAST_TOKENS, MOST_TOKENS = 200, 2500
"""Of the right output: shorter ones say nothing of a speed, longer ones take the time of several."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--updates", type=Path)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    records = read_records(options.data)
    if options.updates is not None:
        records = join_updates(records, options.updates)
    random.Random(options.seed).shuffle(records)
    chat = open_chat()
    cases = [case for record in records if (case := _case(record, chat)) is not None][: options.limit]
    if not cases:
        sys.exit("no edit fits")
    files = [path for path in (options.data, options.updates) if path is not None]
    result = {"provenance": provenance(files, seed=options.seed), "cases": cases}
    options.out.write_text(json.dumps(result), encoding="utf-8")
    n_right = sum(case["is_merge_right"] for case in cases)
    print(f"{len(cases)} edits, the merge right in {n_right}")
    return 0


def _case(record: EditRecord, chat: Chat) -> dict[str, Any] | None:
    request = request_of(record, RequestOptions())
    try:
        job = read_edit(request, detect_language(name=request.language, path=request.path))[1]
    except ApplyError:
        return None
    after = normalise(record.after)
    answer = [*chat._chat.content.encode(chat.tags.wrap(after)).ids, *chat.stop_ids]
    prompt_ids = chat.encode_prompt(job)
    if not LEAST_TOKENS <= len(answer) <= MOST_TOKENS or len(prompt_ids) + len(answer) + SPARE > CONTEXT:
        return None
    return {
        "id": record.id,
        "prompt_ids": prompt_ids,
        "answer_ids": answer,
        "told": encode_edit(job),
        "is_merge_right": job.prediction.text == after,
    }


if __name__ == "__main__":
    sys.exit(main())
