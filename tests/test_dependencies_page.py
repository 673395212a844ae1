"""docs/dependencies.md defends every dependency in pyproject.toml, and none that is gone."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = [
        project["build-system"]["requires"],
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    return {re.split(r"[<>=~!; ]", requirement)[0] for group in groups for requirement in group}


def _defended():
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", (ROOT / "docs" / "dependencies.md").read_text("utf-8"), re.MULTILINE)
    return {name for names, reason in rows if reason.strip() for name in re.findall(r"`([^`]+)`", names)}


def test_every_dependency_has_its_line_and_every_line_its_dependency():
    assert _defended() == _declared()
