"""The built site asks nothing of anybody: no script, style, picture or font comes from elsewhere."""

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
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
    addresses = (next(filter(None, match.groups())) for match in FETCHED.finditer(text))
    return [address for address in addresses if re.match(r"(?:[a-z]+:)?//", address)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_nothing_comes_from_elsewhere(site):
    read = [path for end in ("html", "css") for path in site.rglob(f"*.{end}")]
    assert len(read) > 30
    assert {
        str(path.relative_to(site)): foreign_addresses
        for path in read
        if (foreign_addresses := foreign(path.read_text("utf-8")))
    } == {}


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_is_wider_than_the_screen(site, browser, width):
    requests = []
    wide = {}
    with browser.new_page(viewport={"width": width, "height": 900}) as shown:
        shown.on("request", lambda request: requests.append(request.url))
        for path in sorted(site.rglob("index.html")):
            shown.goto(path.as_uri())
            over = shown.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            if over > 0:
                wide[str(path.relative_to(site))] = over
    assert wide == {}
    assert [
        url for url in requests if not url.startswith(("file:", "data:", "blob:"))
    ] == []


# docs/dependencies.md defends every dependency in pyproject.toml, and none that is gone.


def _declared():
    groups = []
    for path in [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]:
        project = tomllib.loads(path.read_text("utf-8"))
        groups += [
            project.get("build-system", {}).get("requires", []),
            project["project"].get("dependencies", []),
        ]
        groups += [*project["project"].get("optional-dependencies", {}).values()]
        groups += [*project.get("dependency-groups", {}).values()]
    packages = {
        re.split(r"[<>=~!; ]", requirement)[0]
        for group in groups
        for requirement in group
    }
    return {
        name for name in packages if not re.fullmatch(r"noisegate(-\w+)?(\[.*)?", name)
    }


def _defended():
    page = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", page, re.MULTILINE)
    return {
        name
        for names, reason in rows
        if reason.strip()
        for name in re.findall(r"`([^`]+)`", names)
    }


def test_every_dependency_has_its_line_and_every_line_its_dependency():
    assert _defended() == _declared()


# docs/guarantees.md and the code agree on what is proved: what one of them names, the other has.

PAGE = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
PROMISE = (ROOT / "docs" / "promise.md").read_text("utf-8")


def test_every_statement_names_code_and_test():
    statements = re.split(r"^## (?=G-\d\d )", PAGE, flags=re.MULTILINE)[1:]
    assert [text[:4] for text in statements] == [
        f"G-{number:02}" for number in range(1, len(statements) + 1)
    ]
    for text in statements:
        assert all(
            mark in text
            for mark in ("**Statement.**", "**Proof", "**Code** ", "**Test** ")
        ), text[:40]


def test_every_module_and_file_that_is_named_exists():
    modules = set(re.findall(r"`(noisegate[a-z_]*\.[a-z_.]+)`", PAGE))
    missing = [name for name in modules if not module(name)]
    missing += [
        path
        for path in set(re.findall(r"`([a-z_/-]*tests/[a-z_/]+\.py)`", PAGE))
        if not (ROOT / path).exists()
    ]
    assert sorted(missing) == []


def module(name):
    try:
        return find_spec(name)
    except ModuleNotFoundError:
        return None


def test_every_identifier_that_the_code_cites_is_on_the_page():
    sources = "".join(
        path.read_text("utf-8") for path in ROOT.glob("packages/*/src/**/*.py")
    )
    cited = set(re.findall(r"\bG-\d\d\b", sources))
    assert cited, "no module cites a guarantee any more: has the notation changed?"
    assert cited <= set(re.findall(r"\{#(G-\d\d)\}", PAGE))


def test_the_page_of_the_promise_links_every_statement_once():
    stated = re.findall(r"\{#(G-\d\d)\}", PAGE)
    table = PROMISE.split("{#statements}")[1]
    assert sorted(re.findall(r"\[(G-\d\d)\]\(guarantees\.md#\1\)", table)) == sorted(
        stated
    )
