"""docs/guarantees.md and the code agree on what is proved: what one of them names, the other has."""

import re
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
PROMISE = (ROOT / "docs" / "promise.md").read_text("utf-8")


def test_every_statement_names_code_and_test():
    statements = re.split(r"^## (?=G-\d\d )", PAGE, flags=re.MULTILINE)[1:]
    assert [text[:4] for text in statements] == [f"G-{number:02}" for number in range(1, len(statements) + 1)]
    for text in statements:
        assert all(mark in text for mark in ("**Statement.**", "**Proof", "**Code** ", "**Test** ")), text[:40]


def test_every_module_and_file_that_is_named_exists():
    modules = set(re.findall(r"`(noisegate[a-z_]*\.[a-z_.]+)`", PAGE))
    missing = [name for name in modules if not module(name)]
    missing += [
        path for path in set(re.findall(r"`([a-z_/-]*tests/[a-z_/]+\.py)`", PAGE)) if not (ROOT / path).exists()
    ]
    assert sorted(missing) == []


def module(name):
    try:
        return find_spec(name)
    except ModuleNotFoundError:
        return None


def test_every_identifier_that_the_code_cites_is_on_the_page():
    sources = "".join(path.read_text("utf-8") for path in ROOT.glob("packages/*/src/**/*.py"))
    cited = set(re.findall(r"\bG-\d\d\b", sources))
    assert cited, "no module cites a guarantee any more: has the notation changed?"
    assert cited <= set(re.findall(r"\{#(G-\d\d)\}", PAGE))


def test_the_page_of_the_promise_links_every_statement_once():
    stated = re.findall(r"\{#(G-\d\d)\}", PAGE)
    table = PROMISE.split("{#statements}")[1]
    assert sorted(re.findall(r"\[(G-\d\d)\]\(guarantees\.md#\1\)", table)) == sorted(stated)
