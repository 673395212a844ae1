"""The tests that find planted bugs, by name: they may move to another file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.planted.patches import CannotPlantError

ROOT = Path(__file__).resolve().parents[2]


def located(test: str) -> str:
    """Returns the node of a test, from the root of the repository.

    Args:
        test: `name`, or `file::name` where several files have a test of that name; with `[case]` for one case of it.

    Raises:
        CannotPlantError: if there is no such test, or more than one.
    """
    file, _, name = test.rpartition("::")
    homes = [
        path
        for path in _tests().get(name.partition("[")[0], [])
        if not file or path.stem == file
    ]
    if len(homes) != 1:
        raise CannotPlantError(
            f"there are {len(homes)} tests {test!r}; name the one that finds the bug"
        )
    return f"{homes[0].relative_to(ROOT).as_posix()}::{name}"


@cache
def _tests() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(
        [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("packages/*/tests/**/test_*.py")]
    ):
        for name in re.findall(
            r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE
        ):
            found.setdefault(name, []).append(path)
    return found
