"""The protocol: one tool on the official SDK's server, over whatever transport it is run on."""

from __future__ import annotations

import logging
import traceback
from importlib.metadata import version
from typing import Any

from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    Tool,
    ToolAnnotations,
)

from apply_service.errors import ApplyError, EngineFailure, NotFound
from apply_service.mcp.answer import OUTPUT_SCHEMA, error_answer, outcome_answer
from apply_service.mcp.arguments import INPUT_SCHEMA, read_arguments
from apply_service.mcp.editing import FileEditor

NAME = "edit_file"
DESCRIPTION = (
    "Edit a file without writing it out: send only the lines that change, and the whole file is merged, checked and "
    "written, byte for byte as it was everywhere else. Put all edits of one file into one call. The answer is the diff "
    "and what the checks found; a result that fails a check is not written."
)

log = logging.getLogger(__name__)


def create_server(editor: FileEditor) -> Server[Any]:
    """The MCP server over an editor of files."""

    async def list_tools(_: object, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[describe_tool()])

    async def call_tool(_: object, params: CallToolRequestParams) -> CallToolResult:
        try:
            own, others = await editor.edit_all(read_arguments(_arguments(params)))
            return outcome_answer(own, *others)
        except ApplyError as error:
            return error_answer(error)
        except Exception as error:
            return error_answer(_crash(error))

    return Server("apply-service", version=version("apply-service"), on_list_tools=list_tools, on_call_tool=call_tool)


def describe_tool() -> Tool:
    """`edit_file` as agents see it."""
    return Tool(
        name=NAME,
        title="Edit a file",
        description=DESCRIPTION,
        input_schema=INPUT_SCHEMA,
        output_schema=OUTPUT_SCHEMA,
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
        ),
    )


def _arguments(params: CallToolRequestParams) -> dict[str, Any]:
    if params.name != NAME:
        raise NotFound(f"There is no tool {params.name!r}.", value=params.name, limit=[NAME], remedy="Call edit_file.")
    return params.arguments or {}


def _crash(error: Exception) -> EngineFailure:
    kind = type(error).__name__
    # The message of a foreign exception may quote the user's code, which logs do not hold.
    log.error("edit crashed: %s\n%s", kind, "".join(traceback.format_tb(error.__traceback__)))
    return EngineFailure(f"The edit failed ({kind}).", value=kind, remedy="Look at the file; see the server's log.")
