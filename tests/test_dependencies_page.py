"""docs/dependencies.md and CONTRIBUTING.md defend every dependency in pyproject.toml, and none that is gone."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _declared():
    groups = []
    for path in [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]:
        project = tomllib.loads(path.read_text("utf-8"))
        groups += [project.get("build-system", {}).get("requires", []), project["project"].get("dependencies", [])]
        groups += [*project["project"].get("optional-dependencies", {}).values()]
        groups += [*project.get("dependency-groups", {}).values()]
    found = {re.split(r"[<>=~!; ]", requirement)[0] for group in groups for requirement in group}
    return {name for name in found if not re.fullmatch(r"noisegate(-\w+)?(\[.*)?", name)}


def _defended():
    pages = (ROOT / "docs" / "dependencies.md").read_text("utf-8"), (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = pages[0] + pages[1].split("### For development")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", table, re.MULTILINE)
    return {name for names, reason in rows if reason.strip() for name in re.findall(r"`([^`]+)`", names)}


def test_every_dependency_has_its_line_and_every_line_its_dependency():
    assert _defended() == _declared()
