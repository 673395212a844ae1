"""Elements of SVG whose texts and attributes are escaped, and what every chart has in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

LETTER = 7.2
"""About the width of a letter of 12 pixels in a wide font, in pixels."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawing, and the table of what it shows.

    Attributes:
        drawing: An SVG element.
        headings: Of the table.
        rows: Texts, as many in each as there are headings; the first names the row.
        wide: Whether the drawing keeps its size and scrolls in a box of its own.
    """

    drawing: Markup
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    wide: bool = False


def tag(name: str, *inside: object, **attributes: object) -> Markup:
    """Returns an element; `cls` stands for class, and an underscore for a hyphen."""
    named = (("class" if key == "cls" else key.replace("_", "-"), value) for key, value in attributes.items())
    told = Markup("").join(Markup(' {}="{}"').format(key, _text(value)) for key, value in named)
    return Markup("<{0}{1}>{2}</{0}>").format(name, told, Markup("").join(map(_text, inside)))


def drawing(key: str, title: str, told: str, size: tuple[float, float], *inside: Markup) -> Markup:
    """Returns the SVG element of a chart: its title, what it says in words, and what is in it; `key` is its own."""
    width, height = size
    return tag(
        "svg",
        tag("title", title, id=f"{key}-title"),
        tag("desc", told, id=f"{key}-told"),
        *inside,
        viewBox=f"0 0 {_text(width)} {_text(height)}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"{key}-title {key}-told",
    )


def cut(text: str, most: int) -> str:
    """Returns a text on one line, of at most so many characters."""
    line = " ".join(text.split()) or "(empty)"
    return line if len(line) <= most else line[: most - 1] + "…"


def label(text: str, most: int, **attributes: object) -> Markup:
    """Returns a text of at most so many characters; the whole of a longer one shows under the pointer."""
    short = cut(text, most)
    return tag("text", short, *([tag("title", text)] if short != text else []), **attributes)


def _text(value: object) -> Markup:
    if isinstance(value, float):
        return Markup(f"{value:.2f}".rstrip("0").rstrip("."))
    return escape(value)
