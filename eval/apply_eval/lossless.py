"""`apply-eval lossless`: whether the drafts of a server change what it writes, and whether they pay.

Each prompt is asked three times, in an order drawn anew: plain, with drafts, and plain again.  A server may differ from
itself, so the drafted answer is held against what plain does when it is asked twice.  If drafts change nothing, each of
the three is equally likely to be the one that stands alone: too many drafted ones prove a change, and so does a
difference that comes again each time.  Requests go out one at a time, and none is repeated to hide a failure.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rapidfuzz.distance import Prefix

from apply_eval.completions import CompletionServer, Reply, Step
from apply_eval.datasets import EditRecord, chosen_records
from apply_eval.errors import DataError
from apply_eval.numbers import DASH, money, print_table, progress, seconds, share, times
from apply_eval.provenance import provenance, shown_command
from apply_eval.report import REPORT, render_page
from apply_eval.results import write_results, write_whole
from apply_eval.runners import MISSING_OVER_HTTP
from apply_eval.services import read_api_key
from apply_eval.statistics import (
    LEVEL,
    chance_of_as_many,
    clopper_pearson,
    median,
    median_interval,
    percentile,
    share_of,
)
from apply_eval.summary import cost_per_million
from apply_service.engine.vllm.message import encode_edit
from apply_service.errors import ApplyError, InvalidField, Unreachable
from apply_service.pipeline import read_edit
from apply_service.prompts.chat import Chat
from apply_service.syntax.languages import detect_language
from apply_service.types import ApplyRequest

if TYPE_CHECKING:
    import argparse

OURS = "apply-service"
"""Who owns the models that our own server lists."""
OUR_ON: Mapping[str, Any] = {"apply_service": {"strategy": "model", "on_verdict": {"doubt": "warn"}}}
OUR_OFF: Mapping[str, Any] = {"apply_service": {**OUR_ON["apply_service"], "drafter": "none"}}
EDIT = "Apply the update to the file and answer with the whole new file, and nothing else."
REPEATS, MAX_REPEATED = 5, 10
"""A difference is asked for so many times more, with drafts and plain, for at most so many prompts of a mode."""
MAX_LOST = 5
"""Requests in a row without an answer: the server is gone."""
SHOWN_CHARS, MAX_ERROR_CHARS = 40, 200
KIND, SCHEMA_VERSION = "lossless", 1
ASKED = (
    *("url", "plain", "on", "off", "endpoint", "temperature", "stream", "max_tokens"),
    *("price_per_hour", "tell_edit"),
)
"""Options that a reader of the results must know."""

Mode = Literal["greedy", "seeded"]
Way = Literal["plain", "drafts", "again"]
WAYS: tuple[Way, ...] = ("plain", "drafts", "again")
Odd = Literal["none", "plain", "drafts", "again", "all"]
Word = Literal["same", "changed", "noisy", "unclear", "nothing"]
KINDS: Mapping[str, str] = {"edit": "edits", "prompt": "free prompts"}
MEANINGS: Mapping[Word, str] = {
    "same": "no drafted answer differs from a plain one; the bound is the end of the 95% interval",
    "changed": "the drafted answer stands alone more often than chance allows, or a difference came again each time",
    "noisy": "plain differs from itself, and drafts are not seen to add to it",
    "unclear": "a difference did not come again, on a server that never differs from itself",
    "nothing": "no two answers could be compared, or the switch did not switch",
}


class Task(NamedTuple):
    """One prompt, and the most tokens of its answer."""

    id: str
    kind: str
    text: str
    max_tokens: int
    told: Mapping[str, Any] = MappingProxyType({})
    """Fields of the drafted request alone."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the drafted answer leaves the plain one: a character, and a token where the server tells them."""

    at: int
    before: str
    plain: str
    drafts: str
    token: int | None = None
    plain_token: str | None = None
    drafts_token: str | None = None
    plain_probability: float | None = None
    gap: float | None = None
    """The plain token's probability less the other's, as plain decoding has them."""
    note: str = ""
    """Why something is not known."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prompt asked three times in one mode."""

    task: Task
    mode: Mode
    replies: Mapping[Way, Reply]
    place: Place | None = None
    n_repeats: int = 0
    n_plain_again: int = 0
    """Repeats in which plain wrote what it wrote before."""
    n_drafts_again: int = 0

    @property
    def odd(self) -> Odd | None:
        """The answer that stands alone (`none`: all are equal, `all`: no two are); None of less than two answers."""
        plain, drafts, again = (self.replies[way] for way in WAYS)
        if sum(reply.text is None for reply in self.replies.values()) > 1:
            return None
        if plain.is_same(again):
            return "none" if plain.is_same(drafts) else "drafts"
        if drafts.is_same(again):
            return "plain"
        return "again" if plain.is_same(drafts) else "all"

    @property
    def came_again(self) -> bool:
        """Whether each repeat gave the same difference."""
        return self.n_repeats > 0 and self.n_plain_again == self.n_drafts_again == self.n_repeats


# -- the command -------------------------------------------------------------------------------------------------------
def run(arguments: argparse.Namespace) -> int:
    """Ask, judge, print and write; 0 where one mode shows no difference and none shows one, else 1."""
    tasks, files = read_tasks(arguments)
    stopped: BaseException | None = None
    found: list[Comparison] = []
    modes: tuple[Mode, ...] = ("greedy", "seeded") if arguments.temperature else ("greedy",)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill keeps what is done, as Ctrl-C does
    with ExitStack() as stack:
        drafts, plain = (stack.enter_context(closing(server)) for server in open_servers(arguments))
        asking = Asking(drafts, plain, arguments.temperature, arguments.seed)
        with progress("lossless", len(tasks) * len(modes)) as advance:
            try:
                for comparison in asking.compare_all(tasks, modes):
                    found.append(comparison)
                    advance()
            except (KeyboardInterrupt, Unreachable) as error:
                if not found:
                    raise
                stopped = error
    verdicts = {mode: judge([one for one in found if one.mode == mode], mode) for mode in modes}
    asked = {name: getattr(arguments, name) for name in ASKED}
    results = {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "complete": stopped is None,
        "asked": asked | {"model": drafts.model, "plain_model": plain.model},
        "provenance": provenance(files, seed=arguments.seed),
        "verdicts": verdicts,
        "groups": list(groups(found)),
        "pays": {kind: pays(found, kind, arguments.price_per_hour) for kind in KINDS},
        "rows": [as_json(one) for one in found],
    }
    print_verdicts(results)
    if arguments.out is not None:
        print(f"results in {write_results(arguments.out, results)}")
        print(f"report in {write_page(results, arguments.out).resolve().as_uri()}")
    if stopped is not None:
        raise stopped
    words = {verdict["verdict"] for verdict in verdicts.values()}
    return 0 if "same" in words and not words & {"changed", "unclear"} else 1


def read_tasks(arguments: argparse.Namespace) -> tuple[list[Task], list[Path]]:
    """Return the shortest edits of the data set and the first free prompts, and the files they were read from.  Raises
    DataError."""
    records, files = chosen_records(arguments.data, updates=arguments.updates, split=arguments.split)
    records = sorted(records, key=lambda record: len(record.before))[: arguments.limit]
    told = told_edit if arguments.tell_edit else lambda _: {}
    edits = [
        # A token has more than two characters of code as a rule.
        Task(one.id, "edit", edit_prompt(one.before, one.update), len(one.after) // 2 + 100, told(one))
        for one in records
    ]
    try:
        lines = arguments.prompts.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the prompts can't be read: {error}", value=str(arguments.prompts)) from error
    texts = [line for line in lines if line.strip()][: arguments.limit]
    prompts = [Task(f"prompt {n}", "prompt", text, arguments.max_tokens) for n, text in enumerate(texts, 1)]
    return [*edits, *prompts], [*files, arguments.prompts]


def edit_prompt(original: str, update: str) -> str:
    """Return an edit as a message that a chat model understands, with the tags of apply models."""
    return f"{EDIT}\n\n<code>{original}</code>\n<update>{update}</update>"


def told_edit(record: EditRecord) -> dict[str, Any]:
    """Return the edit as our plug-in in vLLM is told of it."""
    request = ApplyRequest(original=record.before, update=record.update, path=record.path)
    job = read_edit(request, detect_language(name=None, path=record.path))
    return {"vllm_xargs": encode_edit(job, Chat.name)}


def open_servers(arguments: argparse.Namespace) -> tuple[CompletionServer, CompletionServer]:
    """Return the server with drafts and the plain one.  Raises InvalidField: nothing says how they differ."""
    on, off = arguments.on, arguments.off
    is_switched = on is not None or off is not None
    if arguments.plain is None and not is_switched:
        asked = CompletionServer(arguments.url, api_key=read_api_key(arguments.api_key), timeout_s=arguments.timeout)
        asked.close()
        if OURS not in asked.owners.values():
            message = "this is not known to be an apply service, so nothing says how its drafts are turned off"
            remedy = "name a second server without drafts (--plain URL), or fields of the body (--on JSON, --off JSON)"
            raise InvalidField(message, value=arguments.url, remedy=remedy)
        on, off = OUR_ON, OUR_OFF
    if (arguments.plain or arguments.url) == arguments.url and (on or {}) == (off or {}):
        message = "with drafts and without, the same would be asked"
        raise InvalidField(message, value=arguments.url, remedy="let --plain, --on or --off make a difference")
    same: dict[str, Any] = {
        "endpoint": arguments.endpoint,
        "model": arguments.model,
        "api_key": read_api_key(arguments.api_key),
        "is_streamed": arguments.stream,
        "timeout_s": arguments.timeout,
    }
    drafts = CompletionServer(arguments.url, extra=on, **same)
    if arguments.plain in (None, arguments.url):
        return drafts, drafts.with_fields(off)
    return drafts, CompletionServer(arguments.plain, extra=off, **same)


# -- asking ------------------------------------------------------------------------------------------------------------
class Asking:
    """Asks each prompt in its three ways, and looks closer where the drafted answer stands alone."""

    def __init__(self, drafts: CompletionServer, plain: CompletionServer, temperature: float, seed: int) -> None:
        self._servers: Mapping[Way, CompletionServer] = {"plain": plain, "drafts": drafts, "again": plain}
        self._temperature, self._seed, self._rng = temperature, seed, random.Random(seed)
        self._n_lost = 0

    def compare_all(self, tasks: Sequence[Task], modes: Sequence[Mode]) -> Iterator[Comparison]:
        """Yield a comparison for each prompt and mode.  Raises Unreachable: the server is gone."""
        for way in ("plain", "drafts"):  # a first request may take longer than all others
            warm = self._servers[way].ask(tasks[0].text, **self._fields(tasks[0], "greedy", 0))
            if isinstance(warm.error, MISSING_OVER_HTTP):
                raise warm.error
        n_looked: Counter[Mode] = Counter()
        for number, task in enumerate(tasks):
            for mode in modes:
                fields = self._fields(task, mode, number)
                order = self._rng.sample(WAYS, len(WAYS))
                replies = {way: self._ask(way, task, fields) for way in order}
                found = Comparison(task, mode, replies)
                if found.odd == "drafts":
                    found = replace(found, place=self._place(found, fields))
                    n_looked[mode] += 1
                    found = self._repeated(found, fields) if n_looked[mode] <= MAX_REPEATED else found
                yield found

    def _fields(self, task: Task, mode: Mode, number: int) -> dict[str, Any]:
        greedy = {"temperature": 0, "max_tokens": task.max_tokens}
        return greedy if mode == "greedy" else greedy | {"temperature": self._temperature, "seed": self._seed + number}

    def _ask(self, way: Way, task: Task, fields: Mapping[str, Any]) -> Reply:
        reply = self._servers[way].ask(task.text, **fields, **(task.told if way == "drafts" else {}))
        self._n_lost = self._n_lost + 1 if isinstance(reply.error, MISSING_OVER_HTTP) else 0
        if self._n_lost == MAX_LOST:
            message = f"{MAX_LOST} requests in a row had no answer, the last one: {reply.error}"
            raise Unreachable(message, value=self._servers[way].url, remedy="look at the server's log")
        return reply

    def _repeated(self, found: Comparison, fields: Mapping[str, Any]) -> Comparison:
        """Ask for the difference again, and count what came again."""
        n_again: Counter[Way] = Counter()
        for _ in range(REPEATS):
            for way in ("plain", "drafts"):
                reply, before = self._ask(way, found.task, fields), found.replies[way]
                n_again[way] += reply.is_same(before) or (reply.text is None and before.text is None)
        n_plain, n_drafts = n_again["plain"], n_again["drafts"]
        return replace(found, n_repeats=REPEATS, n_plain_again=n_plain, n_drafts_again=n_drafts)

    def _place(self, found: Comparison, fields: Mapping[str, Any]) -> Place | None:
        """Find the first difference; None where there is no answer with drafts."""
        plain, drafts = found.replies["plain"], found.replies["drafts"]
        if plain.text is None or drafts.text is None:
            return None
        at = Prefix.similarity(plain.text, drafts.text)
        ends = [f"(the end: {reply.finish_reason})" for reply in (plain, drafts)]
        shown = [text[at : at + SHOWN_CHARS] for text in (plain.text, drafts.text)]
        before = plain.text[max(0, at - SHOWN_CHARS) : at]
        place = Place(at, before, shown[0] or ends[0], shown[1] or ends[1])
        try:
            steps = self._servers["plain"].steps(found.task.text, **fields)
        except ApplyError as error:
            return replace(place, note=f"no probabilities: {error.message}")
        return with_token(place, steps, plain.text, drafts.text)


def with_token(place: Place, steps: Sequence[Step], plain: str, drafts: str) -> Place:
    """Add the first differing token: the one of plain decoding that holds the place, and the likely one that the
    drafted answer has there."""
    n_same, start, number = len(plain[: place.at].encode()), 0, 0
    while number < len(steps) and start + len(steps[number].token) <= n_same:
        start += len(steps[number].token)
        number += 1
    written, rest = plain.encode(), drafts.encode()[start:]
    is_end = start in (len(written), len(drafts.encode()))  # some servers tell an end as a token, others do not
    if not written.startswith(b"".join(step.token for step in steps[: number + (not is_end)])):
        return replace(place, note="asked for probabilities, plain wrote another text")
    place = replace(place, token=number)
    if is_end or number == len(steps):
        return replace(place, note="one of the two answers ends here, and ends have no probability")
    step = steps[number]
    place = replace(place, plain_token=_shown(step.token), plain_probability=step.probability)
    fitting = [token for token in step.alternatives if token and rest.startswith(token)]
    if fitting:
        token = max(fitting, key=len)
        gap = step.probability - step.alternatives[token]
        return replace(place, drafts_token=_shown(token), gap=gap)
    if not step.alternatives:
        return replace(place, note="the server tells no alternatives")
    least = min(step.alternatives.values())
    note = f"the drafted token is none of the {len(step.alternatives)} likeliest: the gap is at least this"
    return replace(place, gap=step.probability - least, note=note)


def _shown(token: bytes) -> str:
    return token.decode("utf-8", "backslashreplace")


# -- verdicts ----------------------------------------------------------------------------------------------------------
def judge(found: Sequence[Comparison], mode: Mode) -> dict[str, Any]:
    """Return the figures of one mode, its verdict and the verdict's sentence."""
    figures = figures_of(found)
    odd, n_compared = figures["odd"], figures["n_compared"]
    n_two_agree = sum(odd.get(way, 0) for way in WAYS)
    figures["chance"] = chance_of_as_many(odd.get("drafts", 0), n_two_agree, 1 / len(WAYS))
    is_rare = figures["chance"] < 1 - LEVEL
    no_drafts = figures["n_drafted"] == 0 or bool(figures["n_drafted_plain"])
    word: Word = "same"
    if not n_compared:
        word = "nothing"
    elif odd.get("drafts") and (is_rare or figures["n_came_again"]):
        word = "changed"
    elif no_drafts:
        word = "nothing"
    elif figures["plain_differs"]["n"]:
        word = "noisy"
    elif odd.get("drafts"):
        word = "unclear"
    return figures | {"verdict": word, "sentence": sentence_of(word, mode, figures)}


def figures_of(found: Sequence[Comparison]) -> dict[str, Any]:
    """Count what came of some comparisons.  Every request is in one of the counts."""
    compared = [one for one in found if one.odd is not None]
    odd = Counter(one.odd for one in compared)
    replies = [(way, reply) for one in found for way, reply in one.replies.items()]
    gaps = [one.place.gap for one in compared if one.place is not None and one.place.gap is not None]
    return {
        "n": len(found),
        "n_compared": len(compared),
        "odd": dict(odd),
        "drafts_differ": exact_share(odd["drafts"] + odd["plain"] + odd["all"], len(compared)),
        "plain_differs": exact_share(odd["again"] + odd["plain"] + odd["all"], len(compared)),
        "n_repeated": sum(one.n_repeats > 0 for one in compared),
        "n_came_again": sum(one.came_again for one in compared),
        "gaps": sorted(gaps),
        "n_cut": sum(any(reply.finish_reason == "length" for reply in one.replies.values()) for one in compared),
        "n_drafted": _drafted(reply for way, reply in replies if way == "drafts"),
        "n_drafted_plain": _drafted(reply for way, reply in replies if way != "drafts"),
        "n_failed": {way: sum(one.replies[way].error is not None for one in found) for way in WAYS},
    }


def exact_share(n_hits: int, n: int) -> dict[str, Any]:
    """Return a share with its exact 95% interval, as results have it."""
    interval = list(clopper_pearson(n_hits, n)) if n else None
    return {"n": n_hits, "share": share_of(n_hits, n), "interval": interval}


def _drafted(replies: Iterator[Reply]) -> int | None:
    """Return how many tokens were drafted; None where no answer tells."""
    told = [reply.n_drafted for reply in replies if reply.n_drafted is not None]
    return sum(told) if told else None


def sentence_of(word: Word, mode: Mode, figures: Mapping[str, Any]) -> str:
    """Return the sentence of a verdict."""
    n = figures["n_compared"]
    if word == "same":
        bound = share(figures["drafts_differ"]["interval"][1])
        told = f"no difference in {n} answers, so drafts change at most {bound} of such answers"
    elif word == "changed":
        told = f"drafts change answers: {_differ(figures)}"
        if figures["n_came_again"]:
            came, repeated = figures["n_came_again"], figures["n_repeated"]
            told += f"; {came} of {repeated} came again in {REPEATS} of {REPEATS} repeats"
        if gaps := figures["gaps"]:
            told += f"; the first differing tokens are {gaps[0]:.2f} to {gaps[-1]:.2f} apart in probability"
        if mode == "seeded":
            told += "; whether their distribution changes, equal seeds do not show"
    elif word == "noisy":
        fault = "does not repeat itself" if mode == "greedy" else "does not hold a seed"
        told = f"the server {fault}: {_differ(figures)}, which proves nothing about drafts"
    elif word == "unclear":
        told = f"{_differ(figures)}, and no difference came again: ask more prompts (--limit)"
    elif figures["n_drafted_plain"]:
        told = f"plain had drafts too ({figures['n_drafted_plain']} tokens), so nothing was compared"
    elif n:
        told = "not a token was drafted, so nothing was compared"
    else:
        told = f"of {figures['n']} prompts none was answered twice, so nothing was compared"
    return f"{mode}: {told}"


def _differ(figures: Mapping[str, Any]) -> str:
    n, drafts, plain = figures["n_compared"], figures["drafts_differ"], figures["plain_differs"]
    low, high = map(share, drafts["interval"])
    return f"{drafts['n']} of {n} differ from plain ({low}–{high}), plain from itself {plain['n']}"


def groups(found: Sequence[Comparison]) -> Iterator[dict[str, Any]]:
    """Yield the figures of each mode and kind of prompt."""
    for mode in dict.fromkeys(one.mode for one in found):
        for kind, name in KINDS.items():
            if members := [one for one in found if (one.mode, one.task.kind) == (mode, kind)]:
                yield {"mode": mode, "kind": name, **figures_of(members)}


# -- does it pay -------------------------------------------------------------------------------------------------------
def pays(found: Sequence[Comparison], kind: str, price_per_hour: float | None) -> dict[str, Any]:
    """Return the times of one kind of prompt with drafts and without, both modes together, and what they say."""
    members = [one.replies for one in found if one.task.kind == kind]
    pairs = [r for r in members if r["plain"].text is not None and r["drafts"].text is not None]
    sides = {way: [replies[way] for replies in pairs] for way in ("plain", "drafts")}
    latencies = {way: [reply.latency_s for reply in replies] for way, replies in sides.items()}
    ratios = [plain / drafts for plain, drafts in zip(latencies["plain"], latencies["drafts"], strict=True)]
    interval = median_interval(ratios, seed=0)
    figures = {
        "n": len(pairs),
        "speedup": median(ratios),
        "interval": None if interval is None else list(interval),
        "p50_s": {way: percentile(values, 0.5) for way, values in latencies.items()},
        "p99_s": {way: percentile(values, 0.99) for way, values in latencies.items()},
        "cost_per_million_tokens": {
            way: cost_per_million(
                share_of(sum(reply.n_tokens or 0 for reply in replies), sum(latencies[way])), price_per_hour
            )
            for way, replies in sides.items()
        },
    }
    return figures | {"sentence": _pays_sentence(KINDS[kind], figures)}


def _pays_sentence(what: str, figures: Mapping[str, Any]) -> str:
    if figures["interval"] is None:
        return f"{what}: too few answers to say whether drafts pay"
    low, high = figures["interval"]
    word = "drafts pay" if low > 1 else "drafts do not pay" if high < 1 else "drafts make no clear difference"
    p50, p99 = (" → ".join(map(seconds, figures[field].values())) for field in ("p50_s", "p99_s"))
    told = f"{what}: {word} here, {times(figures['speedup'])} as fast at the median ({times(low)}–{times(high)})"
    return f"{told}; P50 {p50}, P99 {p99}, {figures['n']} requests each"


# -- results -----------------------------------------------------------------------------------------------------------
def as_json(one: Comparison) -> dict[str, Any]:
    """Return a comparison for the results; texts only where they differ."""
    values: dict[str, Any] = {"id": one.task.id, "kind": one.task.kind, "mode": one.mode, "odd": one.odd}
    names = ("finish_reason", "latency_s", "n_tokens", "n_drafted")
    for way, reply in one.replies.items():
        told = {name: getattr(reply, name) for name in names if getattr(reply, name) is not None}
        values[way] = told | ({"error": reply.error.message[:MAX_ERROR_CHARS]} if reply.error else {})
        if one.odd != "none" and reply.text is not None:
            values[way]["text"] = reply.text
    if one.n_repeats:
        fields = ("n_repeats", "n_plain_again", "n_drafts_again")
        values |= {name: getattr(one, name) for name in fields} | {"came_again": one.came_again}
    return values | ({"place": asdict(one.place)} if one.place is not None else {})


def notes(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the verdicts leave unsaid."""
    found = results["verdicts"].values()
    if not results["complete"]:
        yield "stopped before its end: the prompts not reached are in no count"
    if any(figures["n_compared"] and figures["n_drafted"] is None for figures in found):
        yield "the answers do not tell whether tokens were drafted: that the switch works is taken on trust"
    if n_cut := sum(figures["n_cut"] for figures in found):
        yield f"{n_cut} answers end at their token limit and are compared up to there"
    failed = Counter(
        (one["kind"], text, way) for one in results["rows"] for way in WAYS if (text := one[way].get("error"))
    )
    for kind, text in dict.fromkeys((kind, text) for kind, text, _ in failed):
        n_drafts, *n_plain = (failed[kind, text, way] for way in ("drafts", "plain", "again"))
        yield f"{KINDS[kind]}: without an answer: {n_drafts} requests with drafts, {sum(n_plain)} plain: {text}"
    if results["asked"]["price_per_hour"] is not None:
        for kind, figures in results["pays"].items():
            shown = map(money, figures["cost_per_million_tokens"].values())
            yield f"{KINDS[kind]}: a million tokens cost {' plain and '.join(shown)} with drafts, one request at a time"


HEADINGS = ("prompts", "compared", "drafts differ", "plain differs", "came again", "cut")


def table_of(results: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the name and the cells of each group."""
    for one in results["groups"]:
        differ = (f"{one[field]['n']} of {one['n_compared']}" for field in ("drafts_differ", "plain_differs"))
        again = f"{one['n_came_again']} of {one['n_repeated']}" if one["n_repeated"] else DASH
        cells = (str(one["n"]), str(one["n_compared"]), *differ, again, str(one["n_cut"]))
        yield (f"{one['mode']}, {one['kind']}", *cells)


def print_verdicts(results: Mapping[str, Any]) -> None:
    """Print a sentence for each mode and kind of prompt, the counts, and the notes."""
    print_table(("", *HEADINGS), table_of(results))
    for mode, verdict in results["verdicts"].items():
        print(verdict["sentence"])
        places = [(row["id"], row["place"]) for row in results["rows"] if row["mode"] == mode and "place" in row]
        for name, place in places[:1]:
            words = f"plain goes on with {place['plain']!r}, drafts with {place['drafts']!r}"
            print(f"{mode}: the first of {len(places)} differences: {name}, character {place['at']}: {words}")
    for figures in results["pays"].values():
        print(figures["sentence"])
    for note in notes(results):
        print(note)


def write_page(results: Mapping[str, Any], folder: Path) -> Path:
    """Write the HTML page into `folder`; its path."""
    start = results["provenance"]
    page = render_page(
        "lossless.html.jinja",
        title=f"apply-eval lossless: {results['asked']['url']}",
        asked=results["asked"],
        sentences=[one["sentence"] for one in (*results["verdicts"].values(), *results["pays"].values())],
        notes=list(notes(results)),
        headings=HEADINGS,
        table=list(table_of(results)),
        meanings=MEANINGS,
        different=[row for row in results["rows"] if row["odd"] not in (None, "none")],
        ways=WAYS,
        start=start,
        command=shown_command(start["command"]),
    )
    return write_whole(folder / REPORT, page)
