"""Draws functions of ours and of other libraries for a blind reading, and computes the marks of one.

    python tests/house/blind_reading.py draw ROOM... --anchor NAME=FOLDER... --out DIR
    python tests/house/blind_reading.py score DIR MARKS

A reading says how hard our code is for somebody who has never seen it. `draw` writes as many functions of a room as of
the anchors, well-kept libraries of the same field, into files that are formatted alike, without names of packages, in
random order. Who wrote which is in a file beside the folder, for `score` alone. The reader, who has not seen the code,
gives each function three marks from 1 to 10: is it understood at once, do its names say what they mean, would the
reader dare to change it. `readings.md` keeps the means.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

# Shorter functions show no style, longer ones tire the reader.
_MIN_CODE_LINES = 12
_MAX_CODE_LINES = 40
_PACKAGE_NAMES = re.compile(
    r"noisegate\w*|jax_privacy|dp_accounting|equinox|botorch|opacus|\bmbi\b"
)
_MARKS = ("understanding", "names", "change")


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function that a reader gets to see.

    Attributes:
        origin: "ours", or the name of an anchor.
        file: Where it stands.
        name: What it is called.
        text: Its source.
    """

    origin: str
    file: str
    name: str
    text: str


def functions_below(folder: Path, origin: str) -> list[Function]:
    """Returns the functions of 12 to 40 lines, docstrings left out, of all files below a folder but tests."""
    functions = []
    for path in sorted(folder.rglob("*.py")):
        is_test = "test" in str(path.relative_to(folder)).lower()
        if not is_test:
            functions += list(_functions_of(path, origin))
    return functions


def _functions_of(path: Path, origin: str) -> Iterator[Function]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef):
            continue
        docstring = ast.get_docstring(node, clean=False) or ""
        assert node.end_lineno is not None
        line_count = node.end_lineno - node.lineno + 1 - len(docstring.splitlines())
        if _MIN_CODE_LINES <= line_count <= _MAX_CODE_LINES:
            first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
            source = "\n".join(lines[first - 1 : node.end_lineno])
            yield Function(origin=origin, file=path.name, name=node.name, text=source)


def _alike(source: str) -> str:
    """Formats a function as all others, and takes the names of packages out of it."""
    anonymous = _PACKAGE_NAMES.sub("package", textwrap.dedent(source))
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "format", "--isolated", "--line-length", "88", "-"]
    formatted = subprocess.run(
        command, input=anonymous, capture_output=True, text=True, check=False
    )
    return formatted.stdout or anonymous


def draw(
    rooms: list[Path], anchors: dict[str, Path], count: int, seed: int, out: Path
) -> None:
    """Writes `count` functions of ours and as many of the anchors into `out`, and who wrote which beside it."""
    generator = random.Random(seed)
    ours = [
        function for room in rooms for function in functions_below(room, origin="ours")
    ]
    chosen = generator.sample(ours, min(count, len(ours)))
    by_anchor = {
        name: functions_below(folder, origin=name) for name, folder in anchors.items()
    }
    names = list(by_anchor)
    for index in range(len(chosen)):
        chosen.append(generator.choice(by_anchor[names[index % len(names)]]))
    generator.shuffle(chosen)
    out.mkdir(parents=True)
    for index, function in enumerate(chosen):
        (out / f"{index:02}.py").write_text(_alike(function.text), encoding="utf-8")
    key = {f"{index:02}": asdict(function) for index, function in enumerate(chosen)}
    _key_file(out).write_text(json.dumps(key, indent=1), encoding="utf-8")


def _key_file(out: Path) -> Path:
    return out.with_name(f"{out.name}-key.json")


def score(out: Path, marks_file: Path) -> dict[str, dict[str, float]]:
    """Computes the mean marks of our functions and of the anchors'.

    Args:
        out: The folder that `draw` wrote.
        marks_file: JSON: for each file, such as "07", its marks for understanding, names and change.

    Returns:
        The means, for "ours" and "anchors", and the number of functions of each.
    """
    key = json.loads(_key_file(out).read_text("utf-8"))
    marks = json.loads(marks_file.read_text("utf-8"))
    means = {}
    for side in ("ours", "anchors"):
        files = [
            file
            for file, function in key.items()
            if (function["origin"] == "ours") == (side == "ours")
        ]
        means[side] = {
            mark: round(mean(marks[file][mark] for file in files), 1) for mark in _MARKS
        }
        means[side]["functions"] = len(files)
    return means


def main() -> None:
    """Runs one of the two verbs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawing = verbs.add_parser("draw")
    drawing.add_argument("rooms", nargs="+", type=Path, help="files or folders of ours")
    drawing.add_argument("--anchor", action="append", required=True)
    drawing.add_argument("--count", type=int, default=12, help="functions of each side")
    drawing.add_argument("--seed", type=int, required=True)
    drawing.add_argument("--out", type=Path, required=True)
    scoring = verbs.add_parser("score")
    scoring.add_argument("out", type=Path)
    scoring.add_argument("marks", type=Path)
    options = parser.parse_args()
    if options.verb == "score":
        print(json.dumps(score(options.out, options.marks), indent=1))
        return
    anchors = {
        name: Path(folder)
        for name, folder in (pair.split("=", 1) for pair in options.anchor)
    }
    draw(options.rooms, anchors, options.count, options.seed, options.out)


if __name__ == "__main__":
    main()
