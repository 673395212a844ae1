"""The page that says what must be read names every file of the trusted base, and no other."""

import re

import grimp
from tests.house.trusted_base import ROOT, trusted_files


def test_the_page_names_every_trusted_file():
    page = (ROOT / "docs" / "trusted-base.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (.+) \|$", page, re.MULTILINE)
    named = [
        path if path.startswith("noisegate_") else f"noisegate/{path}"
        for path, _ in rows
    ]
    there = [path.as_posix().partition("/src/")[2] for path in trusted_files()]
    assert sorted(named) == sorted(there)


def test_what_a_trusted_file_imports_is_trusted_too():
    packages = ("noisegate", "noisegate_images", "noisegate_papers")
    graph = grimp.build_graph(*packages, cache_dir=None)
    paths = [path.as_posix().partition("/src/")[2] for path in trusted_files()]
    trusted = {
        path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for path in paths
    }
    imported = {
        module
        for name in trusted
        for module in graph.find_modules_directly_imported_by(name)
    }
    assert imported <= trusted
