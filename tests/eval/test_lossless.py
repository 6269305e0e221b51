"""`apply-eval lossless` against our own server, and against servers with a fault each."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from apply_eval.cli import main
from apply_eval.completions import Reply as Told
from apply_eval.completions import Step
from apply_eval.datasets import write_records
from apply_eval.lossless import Comparison, Place, Task, Way, judge, with_token
from apply_service.build import build_runtime, open_service
from apply_service.engine.vllm.message import decode_edit
from apply_service.settings import Settings
from tests.eval.rows import record
from tests.eval.stub_server import Asked, Reply, stub_server
from tests.live_server import serving

WORDS = ("red", "green", "blue", "grey", "pink", "brown", "black", "white")
N_WORDS = 12
Body = dict[str, Any]


@dataclass
class Speculator:
    """A server whose words follow from prompt and seed.  `speculative` in a body turns drafts on; the other fields are
    its faults: functions of a body and a source of chance."""

    flips: Callable[[Body, random.Random], bool] = lambda body, rng: False
    """Whether the fourth word is another one."""
    fails: Callable[[Body, random.Random], Reply | None] = lambda body, rng: None
    has_logprobs: bool = True
    tells_drafts: bool = False
    rng: random.Random = field(default_factory=lambda: random.Random(5))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return Reply({"data": [{"id": "tiny", "owned_by": "somebody"}]})
        with self.lock:
            return self.fails(asked.body, self.rng) or self.answer(asked.body)

    def answer(self, body: Body) -> Reply:
        key = json.dumps([body.get("messages", body.get("prompt")), body.get("seed")])
        numbers = [byte % len(WORDS) for byte in sha256(key.encode()).digest()[:N_WORDS]]
        if self.flips(body, self.rng):
            numbers[3] = (numbers[3] + 1) % len(WORDS)
        is_cut = body["max_tokens"] < N_WORDS
        words = [f" {WORDS[n]}" for n in numbers[: body["max_tokens"]]]
        choice: Body = {"finish_reason": "length" if is_cut else "stop"}
        choice |= {"message": {"content": "".join(words)}} if "messages" in body else {"text": "".join(words)}
        if body.get("logprobs") and self.has_logprobs:
            choice["logprobs"] = logprobs(numbers[: body["max_tokens"]], is_chat="messages" in body)
        usage: Body = {"prompt_tokens": 1, "completion_tokens": len(words)}
        if self.tells_drafts:
            n = 6 if body.get("speculative") else 0
            usage["completion_tokens_details"] = {"accepted_prediction_tokens": n, "rejected_prediction_tokens": 0}
        if not body["stream"]:
            return Reply({"choices": [choice], "usage": usage})
        pieces = [{"choices": [{"delta": {"content": word}}]} for word in words]
        end = {"choices": [{"delta": {}, "finish_reason": choice["finish_reason"]}], "usage": usage}
        frames = [json.dumps(one) for one in (*pieces, end)]
        return Reply("".join(f"data: {one}\n\n" for one in (*frames, "[DONE]")), type="text/event-stream")


def logprobs(numbers: list[int], *, is_chat: bool) -> Body:
    """Each word has 70%, the next one 20%."""
    tops = [{f" {WORDS[n]}": -0.3567, f" {WORDS[(n + 1) % len(WORDS)]}": -1.6094} for n in numbers]
    tokens = [next(iter(top)) for top in tops]
    if not is_chat:
        return {"tokens": tokens, "token_logprobs": [-0.3567] * len(tokens), "top_logprobs": tops}
    items = [[{"token": token, "logprob": value} for token, value in top.items()] for top in tops]
    return {"content": [{**one[0], "top_logprobs": one} for one in items]}


def is_drafted(body: Body) -> bool:
    return bool(body.get("speculative"))


SWITCH = ("--on", '{"speculative": true}')


def ask(
    server: Speculator, folder: Path, *options: str, limit: int = 12, switch: tuple[str, ...] = SWITCH
) -> tuple[int, Body]:
    """The exit code and the results."""
    with stub_server(server) as stub:
        code = main(["lossless", stub.url, *switch, "--limit", str(limit), "--out", str(folder), *options])
    return code, json.loads((folder / "results.json").read_bytes())


def words(results: Body) -> list[str]:
    return [verdict["verdict"] for verdict in results["verdicts"].values()]


# -- honest servers ----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def own_url() -> Iterator[str]:
    settings = Settings()
    with open_service(build_runtime(settings), settings) as service, serving(service, settings) as (url, _):
        yield url


@pytest.mark.parametrize("options", [(), ("--stream",), ("--endpoint", "completions")])
def test_our_own_server_changes_nothing(
    own_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    write_records(tmp_path / "d.jsonl", [record(name) for name in ("a", "b", "c")])
    data = ("--data", str(tmp_path / "d.jsonl"), "--limit", "3", "--out", str(tmp_path))
    assert main(["lossless", own_url, *data, *options]) == 0
    results = json.loads((tmp_path / "results.json").read_bytes())
    assert words(results) == ["same", "same"]
    greedy = results["verdicts"]["greedy"]
    assert (greedy["odd"], greedy["n_drafted_plain"]) == ({"none": 3}, 0)
    assert greedy["n_drafted"] > 0
    assert greedy["drafts_differ"]["interval"] == pytest.approx([0, 0.7076], abs=1e-4)
    assert greedy["n_failed"] == {"plain": 3, "drafts": 3, "again": 3}, "free prompts are no edits"
    told = capsys.readouterr().out
    assert "greedy: no difference in 3 answers, so drafts change at most 70.8% of such answers" in told
    assert "free prompts: without an answer: 6 requests with drafts, 12 plain: HTTP 400: the messages hold" in told
    assert "no difference in 3 answers" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [(), ("--stream",), ("--endpoint", "completions")])
def test_a_server_without_a_fault(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, results = ask(Speculator(tells_drafts=True), tmp_path, *options)
    assert (code, words(results)) == (0, ["same", "same"])
    assert all(verdict["odd"] == {"none": 24} for verdict in results["verdicts"].values())
    assert results["complete"]
    assert not any("text" in row["plain"] for row in results["rows"]), "texts are kept where they differ"


def test_one_server_is_opened_once(tmp_path: Path) -> None:
    write_records(tmp_path / "d.jsonl", [record("a")])
    data = ("--data", str(tmp_path / "d.jsonl"), "--limit", "1", "--out", str(tmp_path))
    with stub_server(Speculator()) as stub:
        assert main(["lossless", stub.url, "--on", '{"speculative": true}', *data]) == 0
        assert [asked.path for asked in stub.asked].count("/v1/models") == 1


def test_two_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server(Speculator()) as plain:
        code, results = ask(Speculator(flips=lambda body, rng: True), tmp_path, switch=("--plain", plain.url))
        assert {asked.body["temperature"] for asked in plain.asked if asked.body} == {0, 0.8}
    assert (code, words(results)) == (1, ["changed", "changed"])
    row = next(row for row in results["rows"] if row["mode"] == "greedy")
    at = f"{row['id']}, character {row['place']['at']}: plain goes on with {row['place']['plain']!r}"
    assert f"greedy: the first of 24 differences: {at}" in capsys.readouterr().out


# -- servers with a fault ----------------------------------------------------------------------------------------------
def test_our_plug_in_is_told_of_edits_with_drafts_alone(tmp_path: Path) -> None:
    told: list[bool] = []
    drafts = Speculator(fails=lambda body, _: told.append(decode_edit(body.get("vllm_xargs")) is not None))
    plain = Speculator(flips=lambda body, _: "vllm_xargs" in body)
    with stub_server(plain) as stub:
        code, results = ask(
            drafts, tmp_path, "--plain", stub.url, "--tell-edit", "--temperature", "0", switch=(), limit=3
        )
    assert (code, words(results)) == (0, ["same"])
    assert told == [False, *[True] * 3, *[False] * 3]  # the first request warms up


def test_a_flip_now_and_then_is_caught_by_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, results = ask(Speculator(flips=lambda body, rng: is_drafted(body) and rng.random() < 0.3), tmp_path)
    assert (code, words(results)) == (1, ["changed", "changed"])
    greedy = results["verdicts"]["greedy"]
    assert greedy["odd"].keys() == {"none", "drafts"}
    assert greedy["plain_differs"]["n"] == 0
    assert greedy["chance"] < 0.05
    assert "greedy: drafts change answers: " in capsys.readouterr().out
    place = next(row["place"] for row in results["rows"] if "place" in row)
    assert place["token"] == 3
    assert place["gap"] == pytest.approx(0.5, abs=1e-3)
    assert place["note"] == ""


def test_one_flip_that_comes_again_is_enough(tmp_path: Path) -> None:
    def flips(body: Body, rng: random.Random) -> bool:
        return is_drafted(body) and "limerick" in body["messages"][0]["content"]

    code, results = ask(Speculator(flips=flips), tmp_path, "--temperature", "0")
    assert (code, words(results)) == (1, ["changed"])
    greedy = results["verdicts"]["greedy"]
    assert (greedy["odd"], greedy["n_came_again"]) == ({"none": 23, "drafts": 1}, 1)
    assert greedy["chance"] > 0.05, "by number alone it could be chance"
    assert "came again" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_one_flip_that_never_comes_again_is_not_told_apart_from_chance(tmp_path: Path) -> None:
    n_drafted = iter(range(10**6))

    def flips(body: Body, rng: random.Random) -> bool:
        return is_drafted(body) and next(n_drafted) == 10

    code, results = ask(Speculator(flips=flips), tmp_path, "--temperature", "0")
    assert (code, words(results)) == (1, ["unclear"])


def test_a_flip_under_a_seed_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Speculator(flips=lambda body, rng: is_drafted(body) and "seed" in body)
    code, results = ask(server, tmp_path)
    assert (code, words(results)) == (1, ["same", "changed"])
    assert "whether their distribution changes, equal seeds do not show" in capsys.readouterr().out


def test_a_server_that_does_not_hold_a_seed_is_told_and_not_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, results = ask(Speculator(flips=lambda body, rng: "seed" in body and rng.random() < 0.5), tmp_path)
    assert (code, words(results)) == (0, ["same", "noisy"])
    assert "seeded: the server does not hold a seed" in capsys.readouterr().out


def test_a_server_that_never_repeats_itself_proves_nothing(tmp_path: Path) -> None:
    code, results = ask(Speculator(flips=lambda body, rng: rng.random() < 0.5), tmp_path)
    assert (code, words(results)) == (1, ["noisy", "noisy"])
    assert results["verdicts"]["greedy"]["plain_differs"]["n"] > 3


def test_drafts_that_add_to_the_noise_are_caught(tmp_path: Path) -> None:
    server = Speculator(flips=lambda body, rng: rng.random() < (0.9 if is_drafted(body) else 0.1))
    code, results = ask(server, tmp_path)
    assert (code, words(results)) == (1, ["changed", "changed"])
    assert results["verdicts"]["greedy"]["plain_differs"]["n"] > 0


def test_without_probabilities_the_character_is_told(tmp_path: Path) -> None:
    _, results = ask(Speculator(flips=lambda body, rng: is_drafted(body), has_logprobs=False), tmp_path)
    place = results["rows"][0]["place"]
    assert place["at"] > 0
    assert (place["token"], place["gap"]) == (None, None)
    assert place["note"] == "no probabilities: the server gives no probabilities of tokens"
    assert results["verdicts"]["greedy"]["gaps"] == []


def test_answers_that_are_cut_are_compared_up_to_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, results = ask(Speculator(), tmp_path, "--max-tokens", "5")
    assert (code, words(results)) == (0, ["same", "same"])
    assert results["verdicts"]["greedy"]["n_cut"] == 12, "an edit's answer may be as long as its file"
    assert "24 answers end at their token limit and are compared up to there" in capsys.readouterr().out


def test_an_end_too_early_is_a_difference(tmp_path: Path) -> None:
    def cut(body: Body, rng: random.Random) -> None:
        body["max_tokens"] = min(body["max_tokens"], 5 if is_drafted(body) else 99)

    code, results = ask(Speculator(fails=cut), tmp_path)
    assert (code, words(results)) == (1, ["changed", "changed"])
    assert results["rows"][0]["place"]["drafts"] == "(the end: length)"


def test_failures_are_counted_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(body: Body, rng: random.Random) -> Reply | None:
        return Reply({"error": {"message": "out of luck"}}, 500) if rng.random() < 0.1 else None

    code, results = ask(Speculator(fails=fails), tmp_path, "--seed", "2")
    told = capsys.readouterr().out
    n_failed = sum(row[way].get("error") is not None for row in results["rows"] for way in ("plain", "drafts", "again"))
    counted = [sum(verdict["n_failed"].values()) for verdict in results["verdicts"].values()]
    assert n_failed == sum(counted) > 5
    assert "HTTP 500: out of luck" in told
    assert (code, words(results)) == (1, ["noisy", "noisy"]), "failures hit all alike"


def test_drafts_that_cost_the_answer_are_a_difference(tmp_path: Path) -> None:
    def fails(body: Body, rng: random.Random) -> Reply | None:
        return Reply("crash", 500) if is_drafted(body) and "haiku" in str(body) else None

    code, results = ask(Speculator(fails=fails), tmp_path, limit=40)
    assert (code, words(results)) == (1, ["changed", "changed"])
    assert results["verdicts"]["greedy"]["n_came_again"] == 1


def test_a_server_that_is_gone_stops_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n_asked = iter(range(10**6))

    def fails(body: Body, rng: random.Random) -> Reply | None:
        return Reply(None) if next(n_asked) > 20 else None

    code, results = ask(Speculator(fails=fails), tmp_path)
    assert code == 2
    assert not results["complete"]
    found = capsys.readouterr()
    assert "stopped before its end" in found.out
    assert "5 requests in a row had no answer" in found.err.lower()


def test_a_refused_mode_is_told_beside_the_other(tmp_path: Path) -> None:
    def fails(body: Body, rng: random.Random) -> Reply | None:
        return Reply({"error": {"message": "no seeds here"}}, 400) if "seed" in body else None

    code, results = ask(Speculator(fails=fails), tmp_path)
    assert (code, words(results)) == (0, ["same", "nothing"])
    assert results["verdicts"]["seeded"]["n_failed"] == {"plain": 24, "drafts": 24, "again": 24}


# -- switches that do not switch ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("switch", "told"), [(("--on", "{}"), "the same would be asked"), ((), "nothing says how its drafts")]
)
def test_no_switch_no_proof(
    tmp_path: Path, switch: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with stub_server(Speculator()) as stub:
        assert main(["lossless", stub.url, *switch]) == 2
        assert not [asked for asked in stub.asked if asked.path != "/v1/models"]
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("switch", [("--on", '{"other": true}'), ("--on", "{}", "--off", '{"speculative": true}')])
def test_a_switch_that_the_counts_contradict(tmp_path: Path, switch: tuple[str, ...]) -> None:
    code, results = ask(Speculator(tells_drafts=True), tmp_path, switch=switch)
    assert (code, words(results)) == (1, ["nothing", "nothing"])


def test_a_switch_that_nothing_tells_of_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(Speculator(), tmp_path)[0] == 0
    assert "the answers do not tell whether tokens were drafted" in capsys.readouterr().out


def test_null_takes_a_field_out(tmp_path: Path) -> None:
    server = Speculator(fails=lambda body, rng: Reply({"error": "no seeds"}, 400) if "seed" in body else None)
    fields = ("--on", '{"speculative": true, "seed": null}', "--off", '{"seed": null}')
    code, results = ask(server, tmp_path, switch=fields)
    assert (code, words(results)) == (0, ["same", "same"])


@pytest.mark.parametrize("text", ["[1]", "no"])
def test_fields_are_an_object(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["lossless", "http://127.0.0.1:9", "--on", text])
    assert "is no JSON object" in capsys.readouterr().err


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lossless", "http://127.0.0.1:9", *SWITCH]) == 2
    assert "can't be reached" in capsys.readouterr().err


# -- what is concluded -------------------------------------------------------------------------------------------------
def compared(*texts: str | None) -> Comparison:
    ways: tuple[Way, ...] = ("plain", "drafts", "again")
    replies = {way: Told(text, "stop", latency_s=1.0) for way, text in zip(ways, texts, strict=True)}
    return Comparison(Task("t", "prompt", "", 9), "greedy", replies)


@pytest.mark.parametrize(
    ("texts", "odd"),
    [
        (("a", "a", "a"), "none"),
        (("a", "b", "a"), "drafts"),
        (("b", "a", "a"), "plain"),
        (("a", "a", "b"), "again"),
        (("a", "b", "c"), "all"),
        (("a", None, "a"), "drafts"),
        (("a", None, None), None),
        ((None, None, None), None),
        ((None, "a", "b"), "all"),
    ],
)
def test_who_stands_alone(texts: tuple[str | None, ...], odd: str | None) -> None:
    assert compared(*texts).odd == odd


def test_chance_makes_a_verdict_no_more_often_than_it_may() -> None:
    """A server that flips a coin in each of its ways: `changed` is claimed in at most one run of twenty."""
    rng, n_claimed = random.Random(9), 0
    for _ in range(400):
        found = [compared(*(rng.choice("aaab") for _ in range(3))) for _ in range(30)]
        n_claimed += judge(found, "greedy")["verdict"] == "changed"
    assert n_claimed <= 400 * 0.05 + 10


PLACE = Place(at=3, before="ab ", plain="cd", drafts="xy")
STEPS = [Step(b"ab", 0.9, {}), Step(b" cd", 0.6, {b" cd": 0.6, b" x": 0.25, b" ": 0.1})]


def test_the_token_that_differs_may_begin_before_the_character() -> None:
    found = with_token(PLACE, STEPS, "ab cd", "ab xy")
    assert (found.token, found.plain_token, found.drafts_token) == (1, " cd", " x")
    assert found.gap == pytest.approx(0.35)


def test_a_token_that_is_not_among_the_likeliest_bounds_the_gap() -> None:
    steps = [STEPS[0], Step(b" cd", 0.6, {b" cd": 0.6, b" q": 0.1})]
    found = with_token(PLACE, steps, "ab cd", "ab xy")
    assert (found.drafts_token, found.gap) == (None, 0.5)
    assert "at least" in found.note


@pytest.mark.parametrize(
    ("steps", "plain", "drafts", "note"),
    [
        ([Step(b"zz", 0.9, {})], "ab cd", "ab xy", "wrote another text"),
        (STEPS[:1], "ab", "ab xy", "ends here"),
        ([STEPS[0], Step(b"<|end|>", 0.9, {b" x": 0.1})], "ab", "ab xy", "ends here"),
        (STEPS, "ab cd", "ab", "ends here"),
        ([STEPS[0], Step(b" cd", 0.6, {})], "ab cd", "ab xy", "no alternatives"),
    ],
)
def test_what_is_not_known_has_a_reason(steps: list[Step], plain: str, drafts: str, note: str) -> None:
    place = Place(at=2 if "ab" in (plain, drafts) else 3, before="", plain="", drafts="")
    found = with_token(place, steps, plain, drafts)
    assert found.gap is None
    assert note in found.note
