"""Renders the formulas of a page as MathML while the site is built.

`pymdownx.arithmatex` marks each `$…$` of a page with the class `arithmatex`. Here its
TeX becomes MathML, which every browser of today draws by itself. So a page with
formulas needs no script, no font and no request to another server.
"""

import html
import re

from latex2mathml.converter import convert

_MARKED_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)

_PRIME = re.compile("<msup>(<m[io]>[^<]*</m[io]>)<m[io]>(?:&#x02032;|′)</m[io]></msup>")


def on_page_content(content: str, **_event: object) -> str:
    """Returns the HTML of a page with each marked formula as MathML."""
    return _MARKED_FORMULA.sub(_as_mathml, content)


def _as_mathml(formula: re.Match[str]) -> str:
    tex = html.unescape(formula["tex"]).strip()
    display = "inline" if formula["tag"] == "span" else "block"
    # The glyph of a prime is raised already; as a superscript it is raised twice.
    mathml = _PRIME.sub(r"<mrow>\1<mo>′</mo></mrow>", convert(tex, display=display))
    return f'<{formula["tag"]} class="formula">{mathml}</{formula["tag"]}>'
