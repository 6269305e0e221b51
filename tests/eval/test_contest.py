"""From options to contestants: who takes part, what `plain` is, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apply_eval.contest import ENGINE, FASTER_OF_BOTH, GENERATE, choose_plain, open_contest
from apply_eval.loop import RunOptions, ServerOptions, plan_of
from apply_eval.runners import RequestOptions
from apply_eval.target import TargetOptions, open_target
from apply_service.errors import ApplyError, MissingDependency, UnknownDrafter, UnknownModel, UnsupportedParameter
from tests.eval.rows import record

RECORDS = [record("a"), record("b")]
REPLAY = TargetOptions("replay:tiny-2m")


def options(**changes: Any) -> RunOptions:
    values: dict[str, Any] = {"target": REPLAY, "drafters": ("original",)}
    return RunOptions(**(values | changes))


def test_plain_comes_first_then_drafters_then_peers() -> None:
    contest = open_contest(options(drafters=("original", "merged_edit"), peers={"hf-plain": None}), RECORDS)
    assert list(contest.runners) == ["plain", "original", "merged_edit", "hf-plain"]
    assert contest.model is not None
    assert contest.model["name"] == "replay:tiny-2m"
    assert contest.plain is not None
    assert contest.plain["is"] == FASTER_OF_BOTH
    assert type(contest.runners["plain"]).__name__ == "OwnService"
    contest.close()


def test_without_the_peer_both_are_tried_beforehand() -> None:
    contest = open_contest(options(), RECORDS)
    assert contest.plain is not None
    assert contest.plain["is"] in (ENGINE, GENERATE)
    assert contest.plain["n_samples"] == 2
    assert all(contest.plain["tok_s"].values())
    contest.close()


def test_plain_may_be_left_out_and_is_kept_when_a_run_goes_on() -> None:
    assert "plain" not in open_contest(options(with_plain=False), RECORDS).runners
    kept = {"is": GENERATE, "tok_s": {}, "n_samples": 0, "note": "earlier"}
    contest = open_contest(options(), RECORDS, plain=kept)
    assert contest.plain == kept
    assert type(contest.runners["plain"]).__name__ == "HfGenerate"


def test_the_faster_undrafted_run_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    target = open_target(REPLAY, RECORDS, RequestOptions())
    for ours, theirs, winner in ((100.0, 50.0, ENGINE), (50.0, 100.0, GENERATE)):
        monkeypatch.setattr("apply_eval.contest.alone", speed_of(ours))
        monkeypatch.setattr("apply_eval.contest.HfGenerate", speed_of(theirs))
        found = choose_plain(target, options(), RECORDS)
        assert found["is"] == winner
        assert found["tok_s"] == {ENGINE: ours, GENERATE: theirs}


def speed_of(tok_s: float) -> Callable[..., Any]:
    class Timed:
        def answer(self, _: object) -> Any:
            return type("Answer", (), {"tok_s": tok_s})()

    return lambda *_, **__: Timed()


def test_strategy_exact_is_one_contestant_without_a_model() -> None:
    contest = open_contest(options(drafters=None, request=RequestOptions(strategy="exact")), RECORDS)
    assert list(contest.runners) == ["exact"]
    assert contest.model is None


@pytest.mark.parametrize(
    ("drafters", "dialect", "names"),
    [
        (None, "native", ["server"]),
        (None, "openai_chat", ["server"]),
        (("none", "original"), "native", ["none", "original"]),
    ],
)
def test_a_server(drafters: tuple[str, ...] | None, dialect: str, names: list[str]) -> None:
    contest = open_contest(options(drafters=drafters, server=ServerOptions("http://127.0.0.1:9", dialect)), RECORDS)
    assert list(contest.runners) == names
    contest.close()


SERVER = ServerOptions("http://127.0.0.1:9", "code_apply")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"drafters": ("orignal",)}, UnknownDrafter),
        ({"drafters": ("merged_edit+magic",)}, UnknownDrafter),
        ({"target": TargetOptions("replay:no-such-shape")}, UnknownModel),
        ({"peers": {"hf-magic": None}}, UnsupportedParameter),
        ({"peers": {"vllm": None}}, MissingDependency),
        ({"server": SERVER}, UnsupportedParameter),
        ({"server": SERVER, "drafters": None, "peers": {"hf-plain": None}}, UnsupportedParameter),
        ({"request": RequestOptions(strategy="exact")}, UnsupportedParameter),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], error: type[ApplyError]) -> None:
    with pytest.raises(error):
        open_contest(options(**changes), RECORDS)


def test_a_key_is_no_part_of_a_plan() -> None:
    server = ServerOptions("http://x", "code_apply", None, "secret")
    plan = plan_of(options(server=server), names=["server"], data=[], sample_ids=[], model=None)
    assert "secret" not in str(plan)
    assert plan["server"]["url"] == "http://x"
    assert "secret" not in repr(server)
