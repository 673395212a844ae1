"""The reference of the documentation has every public name, each once, and nothing else."""

import inspect
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

from tests.test_doctests import EXTENSION_POINTS

import noisegate
import noisegate.errors
import noisegate.schema
import noisegate_evaluate

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))
# A function with the name of its module is listed by both, or the page would show the module.
SHADOWED = {"noisegate.schema.decode.decode": "noisegate.schema.decode"}


def extension_points():
    return [
        f"{home}.{name}"
        for home, names in EXTENSION_POINTS.items()
        for name in names.split()
    ]


def public():
    """Every public name, where several rooms offer it under the first of them."""
    errors = [
        name for name, kind in inspect.getmembers(noisegate.errors, inspect.isclass)
    ]
    homes = {}
    for room, names in (
        ("noisegate", noisegate.__all__),
        ("noisegate.schema", noisegate.schema.__all__),
        ("noisegate_evaluate", noisegate_evaluate.__all__),
        ("noisegate.errors", errors),
    ):
        for name in names:
            thing = getattr(import_module(room), name)
            identity = (
                id(thing)
                if inspect.isclass(thing) or inspect.isfunction(thing)
                else f"{room}.{name}"
            )
            if not name.startswith("__"):
                point = noisegate._added().get(name) if room == "noisegate" else None
                homes.setdefault(
                    identity, f"{point.module}.{name}" if point else f"{room}.{name}"
                )
    return {*homes.values(), *extension_points()}


def listed():
    return Counter(
        SHADOWED.get(name, name)
        for page in PAGES
        for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
    )


def test_the_reference_has_every_public_name_and_no_other():
    names = public()
    pages = listed()
    assert not names - set(pages), (
        f"write a line `::: NAME` into a page of docs/api for {sorted(names - set(pages))}"
    )
    assert not set(pages) - names, (
        f"docs/api lists what is not public: {sorted(set(pages) - names)}"
    )
    assert not [name for name, times in pages.items() if times > 1]
    assert "noisegate.methods.pairwise.Pairwise" in pages


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert [page.name for page in PAGES if f"api/{page.name}" not in menu] == []
    assert set(re.findall(r"api/\S+\.md", menu)) == {
        f"api/{page.name}" for page in PAGES
    }
