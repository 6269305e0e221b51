"""Any instruct model, through its own chat template: the original first (its keys and values are reusable), then the
edit."""

from __future__ import annotations

from apply_service.prompts.chat_tokenizer import ChatTokenizer, Message
from apply_service.prompts.tagged import TaggedOutput
from apply_service.prompts.tags import Tags
from apply_service.protocols import EditJob

TAGS = Tags("<merged>", "</merged>", padding="\n")
SYSTEM = """You apply an edit to a file and answer with the whole file after the edit.
The file stands between <original> and </original>. The edit stands between <update> and </update>: the changed parts
of the file, where comments such as "// ... existing code ..." stand for lines that stay as they are. There may be an
instruction between <instruction> and </instruction>.
Rules: write the file between <merged> and </merged> and nothing else; copy every line that the edit does not touch
exactly; leave out the placeholder comments; add no explanations and no code fences."""


def chat_messages(job: EditJob) -> list[Message]:
    """The chat that asks for the merged file, in `TAGS`."""
    parts = [f"<original>\n{job.original}\n</original>"]
    if job.update:
        parts.append(f"<update>\n{job.update}\n</update>")
    if job.instruction:
        parts.append(f"<instruction>{job.instruction}</instruction>")
    return [Message("system", SYSTEM), Message("user", "\n".join(parts))]


class Chat(TaggedOutput):
    name = "chat"
    takes_instructions = True

    def __init__(self, chat: ChatTokenizer) -> None:
        super().__init__(chat, TAGS)

    def encode_prompt(self, job: EditJob) -> list[int]:
        return self._chat.encode_chat(chat_messages(job))
