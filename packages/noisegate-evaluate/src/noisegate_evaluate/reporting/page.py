"""Templates to one self-contained HTML file: every value escaped, no script, nothing that is fetched."""

from __future__ import annotations

import base64
import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from jinja2 import Environment


_CODE = re.compile("`([^`]+)`")


def render_page(template: str, **values: Any) -> str:
    """Returns the page of a template in this package; a value that the template names and nobody gave is an error."""
    return _environment().get_template(template).render(**values)


def picture(png: bytes) -> str:
    """Returns a PNG as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def percent(share: float) -> str:
    """Returns a share in percent, with as many digits as say something: 0.04 %, 3.1 %, 57 %.

    Examples:
        >>> [percent(share) for share in (0.0, 0.000412, 0.0312, 0.57)]
        ['0 %', '0.041 %', '3.1 %', '57 %']
    """
    return "–" if not math.isfinite(share) else f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"


def number(value: float) -> str:
    """Returns a number with at most four digits that count; a whole one with all of them."""
    if not math.isfinite(value):
        return "–"
    return f"{round(value):,}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"


def coded(text: str) -> Markup:
    """Returns a text, escaped, with what stands between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("noisegate_evaluate.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"percent": percent, "number": number, "coded": coded}
    return made
