"""Tool calls as agents send them: each is read as what it means, or refused with an error of its kind."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from apply_service.errors import ApplyError
from apply_service.formats.calls import read_calls
from apply_service.pipeline import read_request, run
from apply_service.target import Runtime, no_target
from apply_service.types import ApplyRequest, ApplyResult, Certainty, FinalEvent
from tests.edits.call_forms import FILE, FORMS, NEW, OLD, Form, hashed, operation


def apply(update: str, original: str = FILE, path: str = "a.py") -> ApplyResult:
    request, runtime = ApplyRequest(original=original, update=update, path=path, strategy="exact"), Runtime(no_target)
    *_, final = run(request, runtime, None, read_request(request, runtime))
    assert isinstance(final, FinalEvent)
    return final.result


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_calls_are_read(form: Form) -> None:
    if form.wanted is None:
        with pytest.raises(ApplyError) as refused:
            apply(form.edit)
        assert refused.value.code == form.error
        return
    result = apply(form.edit)
    assert result.merged_code == form.wanted
    assert result.format == form.format
    is_doubted = result.certainty is not Certainty.CERTAIN and result.certainty is not None
    assert is_doubted == form.is_doubted or form.format == "lazy_snippet"


@pytest.mark.parametrize("form", [form for form in FORMS if form.wanted is not None], ids=lambda form: form.name)
def test_line_ends_of_the_file_stay(form: Form) -> None:
    assert apply(form.edit, FILE.replace("\n", "\r\n")).merged_code == (form.wanted or "").replace("\n", "\r\n")


def test_a_call_is_read_out_of_its_fence() -> None:
    update = f"I change one line.\n\n```json\n{json.dumps({'old_string': OLD, 'new_string': NEW})}\n```\n"
    assert apply(update).merged_code == FILE.replace(OLD, NEW)


def test_a_program_with_a_call_in_it_is_a_snippet() -> None:
    original = "def call():\n    return 1\n"
    update = f"def call():\n    return {json.dumps(operation('update_file', diff='+x'))}\n"
    assert apply(update, original).format == "lazy_snippet"


@pytest.mark.parametrize("tag", ['<invoke name="edit">', "<function=edit>"])
def test_a_page_about_calls_is_a_page(tag: str) -> None:
    """A tag that does not end, in the text of a file, is no call that is cut short."""
    original = "# Calls\n\nOld words.\n"
    update = f"# Calls\n\nA call at 12:30 has `op` and begins with\n\n    {tag}\n    old_string, new_string\n"
    request = ApplyRequest(original=original, update=update, path="a.md", strategy="exact")
    assert read_request(request, Runtime(no_target)).job.format == "lazy_snippet"


def test_data_with_a_tools_name_is_data() -> None:
    original = '[\n  {"name": "read", "path": "/read", "text": "Read\\nit"}\n]\n'
    update = '[\n  {"name": "write", "path": "/write", "text": "Write\\nit"}\n]\n'
    assert apply(update, original, "menu.json").format == "lazy_snippet"


def test_a_call_is_opened_for_the_format_that_the_caller_names_alone() -> None:
    call = json.dumps({"name": "write_file", "arguments": {"path": "a.json", "content": "{}\n"}})
    request = ApplyRequest(original="", update=call, path="a.json", format="whole_file", strategy="exact")
    assert read_request(request, Runtime(no_target)).job.prediction.text == "{}\n"
    snippet = replace(request, format="lazy_snippet")
    assert read_request(snippet, Runtime(no_target)).job.prediction.text == call


def test_the_text_of_a_whole_file_may_hold_fences() -> None:
    page = "# Use\n\n````md\n```sh\nmake\n```\n````\n"
    update = json.dumps({"name": "write_file", "arguments": {"path": "a.md", "content": page}})
    assert apply(update, "# Use\n\nold\n", "a.md").merged_code == page


def test_text_edits_beside_stale_lines_are_not_made() -> None:
    edits = hashed(
        {"set_line": {"anchor": "6:00", "new_text": NEW}}, {"old_text": "import os", "new_text": "import io"}
    )
    with pytest.raises(ApplyError) as refused:
        apply(edits)
    assert refused.value.code == "stale_base"
    assert refused.value.value == "6:00"
    assert OLD.strip() in str(refused.value.limit)


def test_a_line_number_behind_an_edit_that_moves_lines_is_doubted() -> None:
    calls = [{"old_string": "import os\n", "new_string": "import os\nimport io\n"},
             {"command": "insert", "insert_line": 3, "insert_text": "# here\n"}]  # fmt: skip
    result = apply(json.dumps(calls))
    assert result.certainty is Certainty.LIKELY
    assert any("count" in reason for reason in result.reasons)


@pytest.mark.parametrize("text", ["", "{", "[[[[", '{"a": ', "{'a'" * 2000, "[" * 100_000])
def test_what_is_no_call_does_no_harm(text: str) -> None:
    assert not any(isinstance(value, str) for value in read_calls(text).values)


def test_tags_that_do_not_end_are_refused() -> None:
    with pytest.raises(ApplyError, match="cut short"):
        read_calls('<invoke name="x">')
