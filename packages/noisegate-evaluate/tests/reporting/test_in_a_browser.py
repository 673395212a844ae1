"""Pages as a reader has them: nothing is fetched or run, nothing sticks out, and everybody can read them."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from .conftest import HOSTILE, SCRIPT

KINDS = ["public", "private"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [360, 1280])
def test_a_page_asks_for_nothing_complains_of_nothing_and_fits(pages, look, kind, width):
    path = getattr(pages, kind)
    seen = look(path, width)
    assert seen.requests == [path.absolute().as_uri()]
    assert seen.complaints == []
    wide = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    assert seen.page.evaluate(wide) == [width, width]
    # What is wider than the page scrolls in a box of its own, which a keyboard reaches.
    out = """[...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right >
        document.documentElement.clientWidth + 1 && !one.closest('.scroll') && !one.closest('pre')).length"""
    assert seen.page.evaluate(out) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_a_page(pages, look, kind, scheme):
    seen = look(getattr(pages, kind), scheme=scheme)
    found = Axe().run(seen.page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_levels_that_look_like_html_are_text(pages, look, kind):
    seen = look(getattr(pages, kind))
    assert "hacked" not in seen.page.title()
    assert seen.page.evaluate("document.querySelectorAll('script, [onerror], img[src=x], iframe, link').length") == 0
    text = seen.page.evaluate("document.body.textContent")
    assert HOSTILE in text
    assert SCRIPT in text
    assert "{{ 7 * 7 }}" in text
    assert "49 %" in text or "49" not in text.split()


def test_a_script_that_came_in_all_the_same_would_not_run(pages, look, tmp_path):
    # The policy is the second wall: it holds where escaping has failed.
    broken = tmp_path / "broken.html"
    broken.write_text(pages.public.read_text("utf-8").replace("</main>", f"{SCRIPT}</main>"), "utf-8")
    seen = look(broken)
    assert "hacked" not in seen.page.title()
    assert any("Content Security Policy" in complaint for complaint in seen.complaints)
