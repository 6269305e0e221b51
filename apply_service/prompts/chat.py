"""What models are asked through their chat template: any instruct model, and two published apply models, whose wording
is what they were trained on.  The original comes first, as its keys and values are reusable."""

from __future__ import annotations

from apply_service.prompts.tagged import TaggedOutput, Tags
from apply_service.prompts.tokenizer import ChatMessage
from apply_service.protocols import EditJob

TAGS = Tags("<merged>", "</merged>", padding="\n")
SYSTEM = """You apply an edit to a file and answer with the whole file after the edit.
The file stands between <original> and </original>. The edit stands between <update> and </update>: the changed parts
of the file, where comments such as "// ... existing code ..." stand for lines that stay as they are. There may be an
instruction between <instruction> and </instruction>.
Rules: write the file between <merged> and </merged> and nothing else; copy every line that the edit does not touch
exactly; leave out the placeholder comments; add no explanations and no code fences."""

FASTAPPLY_SYSTEM = (
    "You are a coding assistant that helps merge code updates, ensuring every modification is fully integrated."
)
FASTAPPLY_RULES = """Merge all changes from the <update> snippet into the <code> below.
- Preserve the code's structure, order, comments, and indentation exactly.
- Output only the updated code, enclosed within <updated-code> and </updated-code> tags.
- Do not include any additional text, explanations, placeholders, ellipses, or code fences.
"""

OSMOSIS_SYSTEM = """You merge an edit into a file.
The user gives the whole file between <code> and </code>, and an edit to it between <edit> and </edit>. In the edit,
comments such as "// ... existing code ..." stand for lines of the file that stay as they are.
Answer with the whole file after the edit, between <code> and </code>, and with nothing else. Copy everything that the
edit does not touch exactly as it is, blank lines and indentation included."""


def chat_messages(job: EditJob) -> list[ChatMessage]:
    """The chat that asks any instruct model for the merged file, in `TAGS`."""
    parts = [f"<original>\n{job.original}\n</original>"]
    if job.update:
        parts.append(f"<update>\n{job.update}\n</update>")
    if job.instruction:
        parts.append(f"<instruction>{job.instruction}</instruction>")
    return _messages(SYSTEM, "\n".join(parts))


class Chat(TaggedOutput):
    name = "chat"
    tags = TAGS
    takes_instructions = True

    def messages(self, job: EditJob) -> list[ChatMessage]:
        return chat_messages(job)


class FastApply(TaggedOutput):
    """Kortix FastApply (Qwen2.5-Coder 1.5B and 7B fine-tunes): `<code>`, `<update>` -> `<updated-code>`."""

    name = "fastapply"
    tags = Tags("<updated-code>", "</updated-code>")

    def messages(self, job: EditJob) -> list[ChatMessage]:
        sources = f"<code>{job.original}</code>\n\n<update>{job.update}</update>"
        return _messages(FASTAPPLY_SYSTEM, f"{FASTAPPLY_RULES}\n{sources}\n\nProvide the complete updated code.")


class Osmosis(TaggedOutput):
    """Osmosis-Apply-1.7B (Qwen3 fine-tune): `<code>`, `<edit>` -> `<code>`, with the opening tag prefilled."""

    name = "osmosis"
    tags = Tags("", "</code>", padding="\n")
    prefill = "<code>"

    def messages(self, job: EditJob) -> list[ChatMessage]:
        return _messages(OSMOSIS_SYSTEM, f"<code>\n{job.original}\n</code>\n\n\n<edit>\n{job.update}\n</edit>")


def _messages(system: str, user: str) -> list[ChatMessage]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]
