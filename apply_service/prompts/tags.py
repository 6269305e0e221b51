"""A file between an opening and a closing tag, as text: put in, taken out whole, or piece by piece as it is written."""

from __future__ import annotations

from dataclasses import dataclass

from apply_service.errors import Truncated

OTHER_MODEL = "use a model trained for this format, or another prompt format"


@dataclass(frozen=True, slots=True)
class Tags:
    """`opening + padding + text + padding + closing`.  The text is cut at the *last* closing tag, as the file may hold
    the tag itself.

    `opening` is "" where the prompt already ends with it.
    """

    opening: str
    closing: str
    padding: str = ""

    @property
    def head(self) -> str:
        """What stands before the text."""
        return self.opening + self.padding

    @property
    def tail(self) -> str:
        """What stands after it."""
        return self.padding + self.closing

    def wrap(self, text: str) -> str:
        """The output that stands for `text`."""
        return self.head + text + self.tail

    def unwrap(self, output: str) -> str:
        """The text in a whole output.

        Raises:
            Truncated: a tag is not where it belongs.
        """
        text = output.lstrip() if self.opening else output
        if not text.startswith(self.opening):
            raise Truncated(f"the output does not begin with {self.opening}", value=text[:40], remedy=OTHER_MODEL)
        at = text.rfind(self.closing)
        if at < len(self.opening):
            raise Truncated(f"the output lacks {self.closing}", value=text[-40:], remedy="allow more tokens")
        return text[len(self.opening) : at].removeprefix(self.padding).removesuffix(self.padding)


class TagStream:
    """Gives what lies between the tags: holds back whatever may yet turn out to be the closing tag."""

    def __init__(self, tags: Tags) -> None:
        self._tags = tags
        self._held = ""
        self._is_open = not tags.head

    def push(self, text: str) -> str:
        """The text that is sure once this piece of the output has come."""
        self._held += text
        if not self._is_open and not self._open():
            return ""
        at = self._held.rfind(self._tags.closing)
        cut = max(0, (at if at >= 0 else len(self._held)) - len(self._tags.tail) + 1)
        released, self._held = self._held[:cut], self._held[cut:]
        return released

    def finish(self) -> str:
        """What is left before the last closing tag."""
        at = self._held.rfind(self._tags.closing)
        rest = self._held[:at].removesuffix(self._tags.padding) if at >= 0 else self._held
        self._held = ""
        return rest

    def _open(self) -> bool:
        """Take the opening off once enough has come to tell whether the padding is there."""
        text = self._held.lstrip() if self._tags.opening else self._held
        if len(text) < len(self._tags.head):
            return False
        self._held = text[len(self._tags.opening) :].removeprefix(self._tags.padding)
        self._is_open = True
        return True
