"""The tool through the SDK's own client, in memory: files on disk, edits that need no model."""

import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp_types import CallToolResult

from apply_service.disk.backups import BackupStore
from apply_service.disk.paths import Roots
from apply_service.mcp.tool import ALIASES, Apply, FileEditor, create_server
from apply_service.merge.rank.chooser import load
from apply_service.service import Run, Service
from apply_service.types import ApplyRequest, ApplyResult, FinalEvent, Strategy, Verdict
from tests.api.test_batch import pipeline_run, program_run
from tests.api.test_doubt import doubted_run
from tests.batch.test_edits import block
from tests.doubles import ScriptedRun, make_result
from tests.edits.scripts import apply_patch

OLD = "def f():\r\n    return 1\r\n"
EDIT = block("    return 1", "    return 2")
NEW = "def f():\r\n    return 2\r\n"
BROKEN = block("    return 1", "    return (1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_bytes(OLD.encode())
    (tmp_path / "secret.py").write_bytes(b"x = 1\n")
    return folder


def local(service: Service) -> Apply:
    async def apply(request: ApplyRequest) -> ApplyResult:
        async with aclosing(service.submit(request).events_async()) as events:
            async for event in events:
                if isinstance(event, FinalEvent):
                    return event.result
        raise AssertionError

    return apply


@asynccontextmanager
async def connected(root: Path, run: Run = pipeline_run, strategy: Strategy = "auto") -> AsyncIterator[Client]:
    with Service(run) as service:
        store = BackupStore(root.parent / "state", 5)
        editor = FileEditor(Roots([root]), local(service), store, strategy=strategy, max_bytes=50_000)
        async with Client(create_server(editor)) as client:
            yield client
        assert service.wait_until_idle(5)
        service.check_integrity()


def call(root: Path, arguments: dict[str, Any], run: Run = pipeline_run, strategy: Strategy = "auto") -> CallToolResult:
    async def main() -> CallToolResult:
        async with connected(root, run, strategy) as client:
            return await client.call_tool("edit_file", arguments)

    return anyio.run(main)


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


def fields(result: CallToolResult) -> dict[str, Any]:
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_tool_is_listed_with_the_names_that_agents_know(root: Path) -> None:
    async def main() -> None:
        async with connected(root) as client:
            (tool,) = (await client.list_tools()).tools
            assert tool.name == "edit_file"
            assert set(tool.input_schema["properties"]) == set(ALIASES)
            assert tool.input_schema["required"] == ["path", "code_edit"]
            assert tool.annotations is not None
            assert tool.annotations.destructive_hint

    anyio.run(main)


@pytest.mark.parametrize("as_absolute", [False, True])
def test_an_edit_is_written_and_answered_by_its_diff(root: Path, as_absolute: bool) -> None:
    path = str(root / "src" / "a.py") if as_absolute else "src/a.py"
    result = call(root, {"path": path, "code_edit": EDIT, "instruction": "I return two."})
    assert not result.is_error
    assert (root / "src" / "a.py").read_bytes() == NEW.encode()
    assert text(result).startswith(f"Edited {path}. Decided by: exact.\n")
    assert "```diff\n" in text(result)
    assert "warning" not in text(result)
    answer = fields(result)
    assert (answer["status"], answer["strategy"], answer["model"]) == ("written", "exact", None)
    assert answer["result_sha256"] == hashlib.sha256(NEW.encode()).hexdigest()
    assert {verdict["check"] for verdict in answer["verdicts"]} >= {"syntax", "truncation"}
    (patched,) = apply_patch(answer["diff"], {"src/a.py": OLD})
    assert patched.text == NEW


def test_an_order_that_the_result_lacks_is_told_in_the_text(root: Path) -> None:
    result = call(root, {"path": "src/a.py", "code_edit": EDIT, "instruction": "I am renaming `f` to `g`."})
    assert "warning: instruction: the instruction says to rename `f`" in text(result)


def test_what_was_written_can_be_undone(root: Path) -> None:
    call(root, {"path": "src/a.py", "code_edit": EDIT})
    BackupStore(root.parent / "state", 5).undo(root / "src" / "a.py")
    assert tree(root) == {"src/a.py": OLD.encode()}


def test_a_dry_run_writes_nothing(root: Path) -> None:
    result = call(root, {"path": "src/a.py", "code_edit": EDIT, "dryRun": True})
    assert not result.is_error
    assert fields(result)["status"] == "dry_run"
    assert "+    return 2" in text(result)
    assert "would be written" in text(result)
    refused = call(root, {"path": "src/a.py", "code_edit": BROKEN, "dryRun": True})
    assert "would be refused" in text(refused)
    assert not refused.is_error
    assert tree(root) == {"src/a.py": OLD.encode()}
    assert not (root.parent / "state").exists()


def test_a_result_that_fails_a_check_is_not_written_unless_told(root: Path) -> None:
    result = call(root, {"path": "src/a.py", "code_edit": BROKEN})
    assert result.is_error
    assert tree(root) == {"src/a.py": OLD.encode()}
    assert "was NOT written" in text(result)
    assert "error: syntax: " in text(result)
    assert 'on_verdict {"syntax": "warn"}' in text(result)
    assert fields(result)["status"] == "refused"
    told = call(root, {"path": "src/a.py", "code_edit": BROKEN, "on_verdict": {"syntax": "warn"}})
    assert not told.is_error
    assert b"return (1" in (root / "src" / "a.py").read_bytes()


def test_a_file_that_does_not_exist_is_created_with_its_folders(root: Path) -> None:
    result = call(root, {"target_file": "new/deep/b.py", "code_edit": "print(1)\n"})
    assert fields(result)["status"] == "created"
    assert text(result).startswith("Created new/deep/b.py.")
    assert (root / "new/deep/b.py").read_bytes() == b"print(1)\n"


def test_a_snippet_with_gaps_is_no_new_file(root: Path) -> None:
    result = call(root, {"path": "src/typo.py", "code_edit": "# ... existing code ...\nprint(1)\n"})
    assert result.is_error
    assert text(result).startswith("error [file_not_readable]: src/typo.py does not exist")
    assert tree(root) == {"src/a.py": OLD.encode()}


def test_an_edit_that_is_already_there_changes_nothing(root: Path) -> None:
    same = block("    return 1", "    return 1")
    result = call(root, {"path": "src/a.py", "code_edit": same})
    assert fields(result)["status"] == "unchanged"
    assert fields(result)["diff"] == ""
    assert "warning: no_op: " in text(result)
    assert not (root.parent / "state").exists()


@pytest.mark.parametrize("path", ["../secret.py", "/etc/passwd", "src/../../secret.py", "link/secret.py", "alias.py"])
def test_files_outside_the_roots_are_refused(root: Path, path: str) -> None:
    (root / "link").symlink_to(root.parent)
    (root / "alias.py").symlink_to(root.parent / "secret.py")
    result = call(root, {"path": path, "code_edit": block("x = 1", "x = 2")})
    assert result.is_error
    assert text(result).startswith(f"error [outside_roots]: {path} is outside the allowed folders.\nvalue: ")
    assert f'limit: ["{root}"]' in text(result)
    assert (root.parent / "secret.py").read_bytes() == b"x = 1\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"path": "src/a.py"}, "empty_update"),
        ({"path": "src/a.py", "code_edit": ""}, "empty_update"),
        ({"path": "src/a.py", "code_edit": EDIT, "color": "red"}, "unknown_field"),
        ({"path": "src", "code_edit": EDIT}, "file_not_readable"),
        ({"path": "src/a.py/b.py", "code_edit": "x"}, "file_not_readable"),
        ({"path": "a" * 5000, "code_edit": "x"}, "file_not_readable"),
        ({"path": "src/a.py", "code_edit": block("nowhere at all", "x")}, "needs_more_context"),
        ({"path": "src/a.py", "code_edit": EDIT, "base_sha256": "0" * 64}, "stale_base"),
        ({"path": "src/a.py", "code_edit": EDIT, "encoding": "klingon"}, "bad_encoding"),
        ({"path": "src/a.py", "code_edit": EDIT, "on_verdict": {"spelling": "warn"}}, "invalid_field"),
        ({"path": "src/a.py", "code_edit": "a\0b"}, "nul_byte"),
        ({"path": "latin.txt", "code_edit": block("x", "ü")}, "bad_encoding"),
        ({"path": "latin.txt", "code_edit": block("x", "y"), "encoding": "utf-8"}, "bad_encoding"),
        ({"path": "zeros.txt", "code_edit": block("x", "y")}, "bad_encoding"),
        ({"path": ".git/config", "code_edit": "x"}, "outside_roots"),
        ({"path": "large.txt", "code_edit": block("x", "y")}, "too_large"),
    ],
)
def test_errors_are_typed_texts(root: Path, arguments: dict[str, Any], code: str) -> None:
    (root / "latin.txt").write_bytes(b"\xe9\nx\n")
    (root / "zeros.txt").write_bytes(b"\xe9\0\nx\n")
    (root / "large.txt").write_bytes(b"x" * 70_000)
    before = tree(root)
    result = call(root, arguments)
    assert result.is_error
    assert text(result).startswith(f"error [{code}]: ")
    assert "\nremedy: " in text(result)
    assert tree(root) == before


def test_encodings_survive(root: Path) -> None:
    (root / "latin.txt").write_bytes(b"\xe9\r\nx\r\n")
    call(root, {"path": "latin.txt", "code_edit": block("x", "ü"), "encoding": "latin-1"})
    assert (root / "latin.txt").read_bytes() == b"\xe9\r\n\xfc\r\n"


def test_an_encoding_is_found_out(root: Path) -> None:
    (root / "latin.txt").write_bytes(b"\xe9\r\nx\r\n")
    result = call(root, {"path": "latin.txt", "code_edit": block("x", "\u00e9 y")})
    assert (root / "latin.txt").read_bytes() == b"\xe9\r\n\xe9 y\r\n"
    assert "warning: encoding: the file is not UTF-8; it was read and is written as cp1252" in text(result)
    assert result.structured_content is not None
    assert result.structured_content["encoding"] == "cp1252"
    (root / "wide.txt").write_bytes("\u00e9\r\nx\r\n".encode("utf-16"))
    result = call(root, {"path": "wide.txt", "code_edit": block("x", "\u65e5\u672c")})
    assert (root / "wide.txt").read_bytes() == "\u00e9\r\n\u65e5\u672c\r\n".encode("utf-16")
    assert "encoding" not in text(result)


def test_an_edit_that_does_not_fit_a_guess_is_told_of_it(root: Path) -> None:
    (root / "latin.txt").write_bytes(b"\xe9\nx\n")
    result = call(root, {"path": "latin.txt", "code_edit": block("\u0439", "y")})
    assert text(result).startswith("error [needs_more_context]: ")
    assert "the file was read as cp1252, which is a guess" in text(result)


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_the_mode_survives(root: Path) -> None:
    (root / "src" / "a.py").chmod(0o750)
    call(root, {"path": "src/a.py", "code_edit": EDIT})
    assert (root / "src" / "a.py").stat().st_mode & 0o777 == 0o750


def test_another_tool_is_refused(root: Path) -> None:
    async def main() -> CallToolResult:
        async with connected(root) as client:
            return await client.session.call_tool("write_file", {"path": "x"})

    result = anyio.run(main)
    assert result.is_error
    assert text(result).startswith("error [not_found]: ")


def test_a_fence_in_the_diff_stays_inside(root: Path) -> None:
    (root / "r.md").write_bytes(b"```\ncode\n```\n")
    result = call(root, {"path": "r.md", "code_edit": block("code", "more")})
    assert text(result).count("````") == 2
    assert fields(result)["diff"] in text(result)


def test_edits_of_one_file_wait_for_each_other(root: Path) -> None:
    lines = "".join(f"x{i} = 0\n" for i in range(12))
    (root / "many.py").write_bytes(lines.encode())

    async def main() -> None:
        async with connected(root) as client, anyio.create_task_group() as tasks:
            for i in range(12):
                edit = {"path": "many.py", "code_edit": block(f"x{i} = 0", f"x{i} = 1")}
                tasks.start_soon(client.call_tool, "edit_file", edit)

    anyio.run(main)
    assert (root / "many.py").read_bytes() == lines.replace("= 0", "= 1").encode()


def test_a_file_changed_meanwhile_is_left_alone(root: Path) -> None:
    gate = threading.Event()
    run = ScriptedRun(result=make_result("mine\n"), gate=gate)

    async def main() -> CallToolResult:
        results: list[CallToolResult] = []

        async def edit(client: Client) -> None:
            results.append(await client.call_tool("edit_file", {"path": "src/a.py", "code_edit": "x"}))

        async with connected(root, run) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(edit, client)
            await wait_until(run.started.is_set)
            (root / "src" / "a.py").write_bytes(b"theirs\n")
            gate.set()
        return results[0]

    assert text(anyio.run(main)).startswith("error [file_changed]: ")
    assert tree(root) == {"src/a.py": b"theirs\n"}


def test_a_call_that_is_cancelled_stops_its_decoding(root: Path) -> None:
    run = ScriptedRun(gate=threading.Event())

    async def main() -> None:
        async with connected(root, run) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "edit_file", {"path": "src/a.py", "code_edit": "x"})
            await wait_until(run.started.is_set)
            tasks.cancel_scope.cancel()

    anyio.run(main)
    assert run.closed.wait(5)
    assert tree(root) == {"src/a.py": OLD.encode()}


def test_a_crash_is_told_without_its_words(root: Path) -> None:
    result = call(root, {"path": "src/a.py", "code_edit": "x"}, ScriptedRun(error=RuntimeError("secret words")))
    assert text(result).startswith("error [engine_failure]: ")
    assert "secret words" not in text(result)


def test_warnings_are_told(root: Path) -> None:
    verdicts = (Verdict("outside_edit", "warning", "odd", (2, 3)), Verdict("syntax", "pass"))
    run = ScriptedRun(result=make_result(NEW, verdicts=verdicts, diff="d\n"))
    assert "warning: outside_edit: odd (lines 2-3 of the merged file)" in text(
        call(root, {"path": "src/a.py", "code_edit": "x"}, run)
    )


# -- one question ------------------------------------------------------------------------------------------------------
SCOPES = "".join(f"def {name}():\n    x = 1\n    return x\n\n\n" for name in ("first", "second", "third"))
UNCLEAR = "# ... existing code ...\n    x = 2\n    return x\n# ... existing code ...\n"
LISTED = "a = [\n    1,\n]\n"


@pytest.fixture
def scopes(root: Path) -> Path:
    (root / "src" / "a.py").write_text(SCOPES)
    return root / "src" / "a.py"


@pytest.mark.parametrize("chance", [load().thresholds.refuse - 0.01, load().thresholds.refuse, 0.9])
def test_an_answer_in_doubt_is_not_written_but_where_the_caller_accepts_it(root: Path, chance: float) -> None:
    """This one is no reading that another call could name."""
    arguments = {"path": "src/a.py", "code_edit": "b = 2\n"}
    asked = call(root, arguments, doubted_run(chance))
    assert asked.is_error
    assert fields(asked)["status"] == "asked"
    assert tree(root) == {"src/a.py": OLD.encode()}
    assert text(asked).startswith("Is this meant? src/a.py was NOT written: no anchor; ")
    assert f"; {int(100 * chance + 1e-9)}% sure" in text(asked)
    assert 'Call edit_file again with the same arguments and `on_verdict`: {"doubt": "warn"}' in text(asked)
    written = call(root, arguments | {"on_verdict": {"doubt": "warn"}}, doubted_run(chance))
    assert not written.is_error
    assert ": doubt: " in text(written)
    assert tree(root) == {"src/a.py": b"new\n"}


@pytest.mark.parametrize("strategy", ["auto", "exact"])
@pytest.mark.parametrize("form", [int, str, "id"])
def test_one_answer_of_the_agent_ends_a_doubt(scopes: Path, root: Path, strategy: Strategy, form: Any) -> None:
    """Whether the service answers with a doubt or with an error."""
    arguments = {"path": "src/a.py", "code_edit": UNCLEAR}

    async def main() -> None:
        async with connected(root, program_run, strategy) as client:
            asked = await client.call_tool("edit_file", arguments)
            assert asked.is_error
            assert scopes.read_text() == SCOPES
            assert fields(asked)["status"] == "asked"
            assert text(asked).startswith("Which of these 3 readings of the edit is meant? src/a.py was NOT written: ")
            assert "the shown lines fit lines " in text(asked).splitlines()[0]
            assert text(asked).count("```diff\n@@ line ") == 3
            assert "`reading`: 1 or 2 or 3, to write it." in text(asked).splitlines()[-1]
            readings = fields(asked)["readings"]
            assert [one["reading"] for one in readings] == ["1", "2", "3"]
            chances = [one["probability"] for one in readings]
            assert chances == sorted(chances, reverse=True)
            (wanted,) = [
                one for one in readings if one["diff"].startswith("@@ line 11 @@\n def third():\n-    x = 1\n")
            ]
            assert wanted["diff"] in text(asked)
            answer = wanted["id"] if form == "id" else form(wanted["reading"])
            taken = await client.call_tool("edit_file", arguments | {"reading": answer})
            assert not taken.is_error
            assert fields(taken)["status"] == "written"
            assert "doubt" not in text(taken)
            assert scopes.read_text() == SCOPES[::-1].replace("1 = x", "2 = x", 1)[::-1]

    anyio.run(main)


def test_a_dry_run_asks_the_same_question(scopes: Path, root: Path) -> None:
    arguments = {"path": "src/a.py", "code_edit": UNCLEAR}
    dry, wet = (call(root, arguments | {"dryRun": is_dry}, program_run) for is_dry in (True, False))
    assert text(dry) == text(wet)
    assert fields(call(root, arguments | {"dryRun": True, "reading": 2}, program_run))["status"] == "dry_run"
    assert scopes.read_text() == SCOPES


def test_five_places_that_are_equal_are_all_shown(root: Path) -> None:
    (root / "src" / "a.py").write_text("".join(f"def f{n}():\n    x = 1\n    return x\n\n\n" for n in range(5)))
    asked = call(root, {"path": "src/a.py", "code_edit": UNCLEAR}, program_run)
    assert [one["reading"] for one in fields(asked)["readings"]] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("reading", [9, 0, "nine", "0" * 12])
def test_a_reading_that_does_not_exist_is_refused(scopes: Path, root: Path, reading: object) -> None:
    refused = call(root, {"path": "src/a.py", "code_edit": UNCLEAR, "reading": reading}, program_run)
    assert text(refused).startswith("error [unknown_reading]: ")
    assert scopes.read_text() == SCOPES


def test_each_file_of_a_reply_asks_for_itself_and_is_answered_for_itself(scopes: Path, root: Path) -> None:
    (root / "src" / "b.py").write_text(SCOPES)
    (root / "src" / "c.py").write_text(LISTED)
    more = "<<<<<<< SEARCH\n    1,\n=======\n    1,\n    2,\n>>>>>>> REPLACE\n"
    reply = f"src/a.py\n```python\n{UNCLEAR}```\nsrc/b.py\n```python\n{UNCLEAR}```\nsrc/c.py\n{more}"
    asked = call(root, {"path": "src/a.py", "code_edit": reply}, program_run)
    status = {part["path"]: part["status"] for part in (fields(asked), *fields(asked)["others"])}
    assert status == {"src/a.py": "asked", "src/b.py": "asked", "src/c.py": "written"}
    assert "Call edit_file again with the same code_edit, the path src/b.py and `reading`: 1 or 2 or 3" in text(asked)
    written = "a = [\n    1,\n    2,\n]\n"
    for path in ("src/a.py", "src/b.py"):
        taken = call(root, {"path": path, "code_edit": reply, "reading": 1}, program_run)
        assert (fields(taken)["status"], "others" in fields(taken)) == ("written", False)
        assert (root / "src" / "c.py").read_text() == written, "it is not edited again"
    assert [text_of.count("x = 2") for text_of in (scopes.read_text(), (root / "src/b.py").read_text())] == [1, 1]


def test_what_the_file_quotes_does_not_end_the_fence_of_a_question(root: Path) -> None:
    (root / "r.md").write_text("# a\n\n```\nx = 1\n```\n\n# b\n\n```\nx = 1\n```\n")
    asked = call(root, {"path": "r.md", "code_edit": "...\n```\nx = 2\n```\n...\n"}, program_run)
    assert fields(asked)["status"] == "asked"
    assert text(asked).count("````diff\n") == len(fields(asked)["readings"]) > 1


def test_a_quote_that_is_not_found_is_answered_with_the_nearest_lines(root: Path) -> None:
    arguments = {"path": "src/a.py", "code_edit": block("def f():\n    return 3", "x = 1")}
    result = call(root, arguments, strategy="exact")
    assert text(result).startswith("error [needs_more_context]: ")
    assert "return 1" in text(result)


async def wait_until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not condition():
            await anyio.sleep(0.002)


# -- replies over several files ----------------------------------------------------------------------------------------
def test_a_reply_over_several_files_edits_each(root: Path) -> None:
    (root / "src" / "b.py").write_bytes(b"y = 1\n")
    reply = f"src/a.py\n{EDIT}\nsrc/b.py\n{block('y = 1', 'y = 2')}\nsrc/c.py\n{block('gone', 'x')}"
    answer = call(root, {"path": "src/a.py", "code_edit": reply})
    assert tree(root) == {"src/a.py": NEW.encode(), "src/b.py": b"y = 2\n"}
    assert answer.is_error
    others = [(other["path"], other["status"]) for other in fields(answer)["others"]]
    assert others == [("src/b.py", "written"), ("src/c.py", "refused")]
    assert "src/c.py was NOT written" in text(answer)


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights there")
def test_a_link_that_comes_after_the_look(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder becomes a link out of the roots between the look at the name and the reading."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.py").write_bytes(OLD.encode())
    judge = Roots.resolve

    def resolve(self: Roots, name: str) -> Path:
        place = judge(self, name)
        (root / "src").rename(root / "was")
        (root / "src").symlink_to(outside)
        return place

    monkeypatch.setattr(Roots, "resolve", resolve)
    result = call(root, {"path": "src/a.py", "code_edit": EDIT})
    assert (outside / "a.py").read_bytes() == OLD.encode()
    assert result.is_error
