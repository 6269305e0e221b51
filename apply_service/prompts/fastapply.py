"""Kortix FastApply (Qwen2.5-Coder 1.5B and 7B fine-tunes): `<code>`, `<update>` -> `<updated-code>`.

The wording is what the published models were trained on.
"""

from __future__ import annotations

from apply_service.prompts.chat_tokenizer import ChatTokenizer, Message
from apply_service.prompts.tagged import TaggedOutput
from apply_service.prompts.tags import Tags
from apply_service.protocols import EditJob

SYSTEM = "You are a coding assistant that helps merge code updates, ensuring every modification is fully integrated."
RULES = """Merge all changes from the <update> snippet into the <code> below.
- Preserve the code's structure, order, comments, and indentation exactly.
- Output only the updated code, enclosed within <updated-code> and </updated-code> tags.
- Do not include any additional text, explanations, placeholders, ellipses, or code fences.
"""


class FastApply(TaggedOutput):
    name = "fastapply"
    takes_instructions = False

    def __init__(self, chat: ChatTokenizer) -> None:
        super().__init__(chat, Tags("<updated-code>", "</updated-code>"))

    def encode_prompt(self, job: EditJob) -> list[int]:
        sources = f"<code>{job.original}</code>\n\n<update>{job.update}</update>"
        user = f"{RULES}\n{sources}\n\nProvide the complete updated code."
        return self._chat.encode_chat([Message("system", SYSTEM), Message("user", user)])
