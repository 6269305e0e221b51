"""Osmosis-Apply-1.7B (Qwen3 fine-tune): `<code>`, `<edit>` -> `<code>`, with the opening tag prefilled."""

from __future__ import annotations

from apply_service.prompts.chat_tokenizer import ChatTokenizer, Message
from apply_service.prompts.tagged import TaggedOutput
from apply_service.prompts.tags import Tags
from apply_service.protocols import EditJob

SYSTEM = """You merge an edit into a file.
The user gives the whole file between <code> and </code>, and an edit to it between <edit> and </edit>. In the edit,
comments such as "// ... existing code ..." stand for lines of the file that stay as they are.
Answer with the whole file after the edit, between <code> and </code>, and with nothing else. Copy everything that the
edit does not touch exactly as it is, blank lines and indentation included."""


class Osmosis(TaggedOutput):
    name = "osmosis"
    takes_instructions = False

    def __init__(self, chat: ChatTokenizer) -> None:
        super().__init__(chat, Tags("", "</code>", padding="\n"))

    def encode_prompt(self, job: EditJob) -> list[int]:
        user = f"<code>\n{job.original}\n</code>\n\n\n<edit>\n{job.update}\n</edit>"
        return self._chat.encode_chat([Message("system", SYSTEM), Message("user", user)], prefill="<code>")
