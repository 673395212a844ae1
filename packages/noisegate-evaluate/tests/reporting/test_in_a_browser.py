"""Pages as a reader has them: nothing is fetched or run, nothing sticks out, and everybody can read them."""

import re

import numpy as np
import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe

from noisegate import Schema, report, synthesize
from noisegate.schema import Categorical, Integer, Ordered

from .conftest import FEW, HOSTILE, SCRIPT

KINDS = ["public", "private"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [360, 500, 1280])
def test_a_page_asks_for_nothing_complains_of_nothing_and_fits(
    pages, look, kind, width
):
    path = getattr(pages, kind)
    seen = look(path, width)
    assert seen.requests == [path.absolute().as_uri()]
    assert seen.complaints == []
    wide = (
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert seen.page.evaluate(wide) == [width, width]
    # What is wider than the page scrolls in a box of its own, which a keyboard reaches.
    out = """[...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right >
        document.documentElement.clientWidth + 1 && !one.closest('.scroll') && !one.closest('pre')).length"""
    assert seen.page.evaluate(out) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("few", [True, False])
def test_a_printed_page_is_whole(pages, wide, look, kind, few):
    seen = look(
        getattr(pages if few else wide, kind), 688
    )  # A4 within the margins, at 96 pixels an inch
    seen.page.emulate_media(media="print")
    boxes = """[...document.querySelectorAll('svg, table, td, th, h2, h3')].map(one => [one.tagName,
        ...['left', 'right', 'top', 'bottom'].map(side => one.getBoundingClientRect()[side])])"""
    found = [box for box in seen.page.evaluate(boxes) if box[2] > box[1]]
    assert max(right for _, _, right, _, _ in found) <= 689
    drawn = [box[1:] for box in found if box[0] == "svg"]
    for place, (left, right, top, bottom) in enumerate(drawn):
        assert not any(
            x < right and left < y and a < bottom and top < b
            for x, y, a, b in drawn[place + 1 :]
        )


def printed(look, path):
    """Returns the number of sheets of A4, and the text that is printed."""
    seen = look(path)
    sheets = seen.page.pdf(prefer_css_page_size=True)
    seen.page.emulate_media(media="print")
    text = seen.page.evaluate("document.body.innerText")
    return len(re.findall(rb"/Type\s*/Page\b", sheets)), " ".join(text.split())


@pytest.mark.parametrize("about", ["", "word " * 45])
def test_a_public_page_has_two_sheets(look, tmp_path, about):
    levels = tuple(f"a level with a long name {place}" for place in range(40))
    columns = [Integer(name=f"number {place}", lower=0, upper=9) for place in range(10)]
    columns += [
        Integer(name="crp", lower=0, upper=99, limits=("<5", "n.d."), missing=True),
        Categorical(name="diagnosis", levels=levels),
    ]
    relation = Ordered(upper_name="number 1", lower_name="number 0")
    draw = np.random.default_rng(0)
    table = {f"number {place}": draw.integers(0, 10, 2000) for place in range(10)}
    table["number 1"] = np.maximum(table["number 1"], table["number 0"])
    table["crp"] = draw.choice(["<5", "7", "n.d."], 2000)
    table["diagnosis"] = draw.choice(levels, 2000)
    model = synthesize(
        pa.table(table),
        schema=Schema(columns, relations=(relation,)),
        epsilon=1.0,
        title=about.strip() or None,
        owner=about.strip() or None,
        purpose=about.strip() or None,
        **FEW,
    )
    count, shown = printed(look, report(model, out=tmp_path / "pages").public)
    assert count == 2
    for words in (
        *("at most 56 of 100", "One record is protected", "How far it can be relied"),
        *("number 9 integer 0 to 9", "limits <5, n.d.; may be missing"),
        *("long name 5, …", str(relation), "noisegate verify MODEL"),
        *("Do not use it", model.certificate.digest(), "Signature"),
    ):
        assert words in shown, words
    for words in ("long name 39", "Measured shares", "Settings"):
        assert words not in shown, words


def test_more_columns_are_printed_whole(wide, look):
    count, shown = printed(look, wide.public)
    assert count <= 3
    for place in range(60):
        assert f"column number {place}continuous0.0 to 1.0" in shown


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (500, "light")]
)
def test_everybody_can_read_a_page(pages, look, kind, width, scheme):
    seen = look(getattr(pages, kind), width, scheme)
    found = Axe().run(seen.page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_levels_that_look_like_html_are_text(pages, look, kind):
    seen = look(getattr(pages, kind))
    assert "hacked" not in seen.page.title()
    assert (
        seen.page.evaluate(
            "document.querySelectorAll('script, [onerror], img[src=x], iframe, link').length"
        )
        == 0
    )
    text = seen.page.evaluate("document.body.textContent")
    assert HOSTILE in text
    assert SCRIPT in text
    assert "{{ 7 * 7 }}" in text
    assert "49 %" in text or "49" not in text.split()


def test_a_script_that_came_in_all_the_same_would_not_run(pages, look, tmp_path):
    # The policy is the second wall: it holds where escaping has failed.
    broken = tmp_path / "broken.html"
    broken.write_text(
        pages.public.read_text("utf-8").replace("</main>", f"{SCRIPT}</main>"), "utf-8"
    )
    seen = look(broken)
    assert "hacked" not in seen.page.title()
    assert any("Content Security Policy" in complaint for complaint in seen.complaints)
