"""The built site asks nothing of anybody: no script, style, picture or font comes from elsewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What a browser fetches by itself; a link that a reader follows is none of it.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=["']?(?P<src>[^"'\s>]+)
    |<link\b(?![^>]*\brel=["']?(?:canonical|next|prev))[^>]*?\bhref=["']?(?P<href>[^"'\s>]+)
    |url\(["']?(?P<url>[^"')]+)
    |@import\s+["'](?P<imported>[^"']+)""",
    re.VERBOSE,
)


def foreign(text):
    """What `text`, of a page or a style sheet, has a browser fetch from another place."""
    asked = (next(filter(None, found.groups())) for found in FETCHED.finditer(text))
    return [one for one in asked if re.match(r"(?:[a-z]+:)?//", one)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_nothing_comes_from_elsewhere(site):
    read = [path for end in ("html", "css") for path in site.rglob(f"*.{end}")]
    assert len(read) > 30
    assert {str(path.relative_to(site)): found for path in read if (found := foreign(path.read_text("utf-8")))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_is_wider_than_the_screen(site, width):
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs Chromium on PATH")
    from playwright.sync_api import sync_playwright

    asked, wide = [], {}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": width, "height": 900})
        shown.on("request", lambda request: asked.append(request.url))
        for path in sorted(site.rglob("index.html")):
            shown.goto(path.as_uri())
            over = shown.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if over > 0:
                wide[str(path.relative_to(site))] = over
        browser.close()
    assert wide == {} and [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
