"""The HTML report: self-contained, escaped, complete."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from apply_eval.report import render_report, samples, tables, write_report
from apply_eval.results import RESULTS, ROWS, RunResults, build_results, read_results, write_results
from apply_eval.rows import RowsFile
from apply_eval.summary import SummaryOptions
from tests.eval.fake_contest import do_run, plan, session
from tests.eval.rows import facts, missing, refused, wrong

KEPT = Path(__file__).parents[2] / "benchmarks" / "results"

NASTY = '</pre><script>alert(1)</script>&amp;"\x07'
LOADING = ("src", "srcset", "data", "poster", "action", "formaction", "background", "ping", "manifest")
VOID = frozenset({"meta", "br", "hr", "img", "input", "link"})


class Page(HTMLParser):
    """What a browser would see: elements, attributes, and whether they are nested well."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> RunResults:
    folder = tmp_path_factory.mktemp("run")
    do_run(folder)
    return read_results(folder)


@pytest.fixture(scope="module")
def page(results: RunResults) -> str:
    return render_report(results)


def nasty_results(folder: Path) -> RunResults:
    """Names, messages and diffs that try to break out."""
    name = f"d{NASTY}"
    some = plan(names=[name], sample_ids=["a", "b", "c"])
    with RowsFile(folder / ROWS, some) as file:
        file.add_session(session() | {"command": ["apply-eval", NASTY]})
        file.add_row(wrong("a", name, diff=f"-{NASTY}\n+{NASTY}", findings=(NASTY,)))
        file.add_row(refused("b", name, NASTY))
        file.add_row(missing("c", name))
        samples_of = [facts("a", path=NASTY, tags=(NASTY,)), facts("b", language=NASTY), facts("c")]
        write_results(folder, build_results(file.record, samples_of, SummaryOptions(), plain=None))
    return read_results(folder)


def assert_self_contained(text: str) -> None:
    """No element, attribute or style that would fetch anything."""
    for tag, attributes in Page(text).elements:
        assert tag not in {"script", "link", "iframe", "img", "object", "embed", "base", "video", "audio"}, tag
        for name, value in attributes.items():
            assert name not in LOADING, (tag, name)
            assert not name.startswith("on"), (tag, name)
            if name.endswith("href"):
                assert (value or "").startswith("#"), (tag, value)
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
    assert styles
    assert not re.search(r"url\(|@import|https?:|//", styles)


def test_nothing_is_loaded_from_anywhere(page: str) -> None:
    assert_self_contained(page)
    assert "default-src 'none'" in page
    assert len(re.findall("https?://", page)) == 0


def test_elements_are_nested_well(page: str) -> None:
    assert Page(page).open == []


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    text = render_report(nasty_results(tmp_path))
    assert_self_contained(text)
    assert Page(text).open == []
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_both_colour_schemes_and_phones_are_thought_of(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport" content="width=device-width' in page
    assert '<meta name="color-scheme" content="light dark">' in page


def test_every_colour_that_is_used_is_defined_for_both_schemes(page: str) -> None:
    light, dark = page.split("@media (prefers-color-scheme: dark)", 1)
    dark = dark.split("* { box-sizing", 1)[0]
    used = set(re.findall(r"var\((--[\w-]+)\)", page))
    for name in used:
        assert f"{name}:" in light, name
        assert f"{name}:" in dark, name


def test_all_tables_are_there(results: RunResults) -> None:
    assert [table.title for table in tables(results)] == [
        "Exact match by language",
        "Latency by lines before the edit",
        "Confidence and truth",
    ]


def test_figures_of_the_summary_are_on_the_page(page: str, results: RunResults) -> None:
    assert f"{results.summary['fast']['exact_match']:.1%}" in page
    assert "2.00×" in page
    assert "c0ffee" in page


def test_every_sample_has_its_section_the_worst_first(page: str, results: RunResults) -> None:
    found = samples(results)
    assert len(found) == len(results.facts)
    verdicts = [sample.verdict for sample in found]
    assert verdicts == sorted(verdicts, key=["silent", "wrong", "crashed", "refused", "missing", "exact"].index)
    assert verdicts[0] == "silent"
    assert all(f'id="{sample.anchor}"' in page for sample in found)
    assert len({sample.anchor for sample in found}) == len(found)


def test_a_wrong_answer_shows_its_diff_once_with_all_who_gave_it(results: RunResults) -> None:
    silent = next(sample for sample in samples(results) if sample.verdict == "silent")
    ((names, lines),) = silent.wrong
    assert names == "plain, fast, faster"
    kinds = set(lines)
    assert {("minus", "-b = 22"), ("plus", "+b = 2")} <= kinds


def test_the_snippet_stands_beside_the_wanted_change(results: RunResults, page: str) -> None:
    sample = samples(results)[0]
    assert sample.update == [("same", "b = 22")]
    assert {("minus", "-b = 2"), ("plus", "+b = 22")} <= set(sample.change)
    assert page.count('<div class="beside">') == len(results.facts)


def test_a_verdict_and_the_words_of_the_page_are_explained(page: str) -> None:
    assert page.count('<p class="verdict">') == 1, "drafters never change an answer"
    assert "of 30 right" in page
    for word in ("silent", "exact", "acceptance", "speed-up", "applied unseen"):
        assert f"<dt>{word}</dt>" in page


def test_results_without_their_rows_file_have_no_diffs(tmp_path: Path) -> None:
    do_run(tmp_path)
    (tmp_path / ROWS).unlink()
    found = read_results(tmp_path / RESULTS)
    assert all(sample.wrong == sample.update == sample.change == [] for sample in samples(found))
    assert write_report(found, tmp_path).stat().st_size > 10_000


@pytest.mark.parametrize("path", sorted(KEPT.glob("eval-*.json")), ids=lambda path: path.stem)
def test_kept_results_of_older_versions_have_a_page(path: Path) -> None:
    assert "samples" in render_report(read_results(path))
