"""A small canvas for inline SVG: elements as a tree, so that every text is escaped; colours are the page's classes."""

from __future__ import annotations

from xml.etree import ElementTree

Element = ElementTree.Element


class Canvas:
    """A drawing of `width` x `height` units that takes the width it is given; `label` is read out to those who can't
    see it."""

    def __init__(self, width: float, height: float, *, label: str) -> None:
        self.width = width
        self.height = height
        self.root = ElementTree.Element(
            "svg", {"viewBox": f"0 0 {_number(width)} {_number(height)}", "role": "img", "aria-label": label}
        )

    def add(
        self, tag: str, *, title: str = "", parent: Element | None = None, text: str = "", **attributes: object
    ) -> Element:
        """An element; `class_` and names with `_` become what SVG calls them; numbers are cut to two decimals."""
        values = {name.rstrip("_").replace("_", "-"): _text(value) for name, value in attributes.items()}
        element = ElementTree.SubElement(self.root if parent is None else parent, tag, values)
        if text:
            element.text = text
        if title:
            ElementTree.SubElement(element, "title").text = title
        return element

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> Element:
        return self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", class_: str = "label") -> Element:
        return self.add("text", x=x, y=y, text=text, text_anchor=anchor, class_=class_)

    def render(self) -> str:
        """The markup."""
        return ElementTree.tostring(self.root, encoding="unicode")


def _text(value: object) -> str:
    return _number(value) if isinstance(value, int | float) else str(value)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
