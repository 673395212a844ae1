"""Pages as a reader has them: nothing is fetched or run, nothing sticks out, and everybody can read them."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from .conftest import HOSTILE, SCRIPT

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
