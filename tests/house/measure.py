"""Measures the house: how much code there is and how dense, what must be trusted, what one run enters, and more.

    python tests/house/measure.py [--json]

It fails where a figure is on the wrong side of its limit in `limits.toml`, and tells how far each is from its goal. A
limit may be tightened; loosening one is a line that a reviewer sees. None counts lines: what is counted are tokens,
which squeezing does not save.

A file is entered by a run when one of its functions is called in it, by whatever thread. The runs are a fit of a small
CSV file with the default method and a fit of a folder of small images with theirs, both from the command line without
the page that noisegate-evaluate draws where it is installed, the first of them with the page, and DP-GAN's fit of a
table behind a gate, in Python, whose gradients are released step by step.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import FrameType
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(
    0, str(ROOT)
)  # this file is started as a program, which knows its own folder only

from tests.house.code_size import CodeSize, size_of  # noqa: E402
from tests.house.inheritance import concrete_overrides, longest_chain, our_classes  # noqa: E402
from tests.house.kind_checks import kind_checks  # noqa: E402
from tests.house.string_imports import string_imports  # noqa: E402
from tests.house.trusted_base import trusted_files  # noqa: E402

SOURCES = sorted(ROOT.glob("packages/*/src/*"))
SHAPED = re.compile(r"\b(Float|Int|UInt|Bool|Num|Real|Integer|Shaped)(8|16|32|64)?\[")
SEVERAL = re.compile(
    r"\b(Mapping|dict|list|Sequence|Iterator|Iterable|Callable)\[|tuple\[Tensor, \.\.\."
)
FUNCTION = 0x1  # CO_OPTIMIZED: the code of a function, not of a module or a class body

TABLE = """\
label = "answer"
[columns.age]
kind = "integer"
lower = 18
upper = 90
[columns.job]
kind = "categorical"
levels = ["nurse", "teacher", "farmer"]
[columns.answer]
kind = "categorical"
levels = ["no", "yes"]
"""
IMAGES = ["--size", "8", "--classes", "cat,dog"]
FEW = [
    "pixels=20",
    "orientations=20",
    "wavelets=20",
    "channels=[4,2]",
    'fit_options={"steps": 20, "batch": 10}',
]

KINDS = "csv", "page", "image", "gradient"

LIMITS = Path(__file__).with_name("limits.toml")


def write_table(folder: Path) -> None:
    """Writes made-up records and their schema."""
    draw = random.Random(0)
    with (folder / "records.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["age", "job", "answer"])
        jobs = ["nurse", "teacher", "farmer"]
        answers = ["no", "yes"]
        table.writerows(
            [draw.randint(18, 90), draw.choice(jobs), draw.choice(answers)]
            for _ in range(300)
        )
    (folder / "schema.toml").write_text(TABLE, encoding="utf-8")


def write_images(folder: Path) -> None:
    """Writes made-up images, a folder a class."""
    from PIL import Image

    draw = random.Random(0)
    for name in ("cat", "dog"):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(40):
            image = Image.frombytes(
                "L", (8, 8), bytes(draw.randrange(256) for _ in range(64))
            )
            image.save(folder / "images" / name / f"{number}.png")


def prepare(kind: str, folder: Path) -> Callable[[], object]:
    """Returns one of the runs."""
    if kind == "gradient":
        from pyarrow import csv as arrow_csv

        import noisegate

        schema = noisegate.Schema.from_toml(folder / "schema.toml")
        records = arrow_csv.read_csv(folder / "records.csv")
        gate = noisegate.Gate(records, schema=schema, epsilon=5.0, records=len(records))
        return partial(noisegate.DPGAN(steps=12, latent=4).fit, gate)
    from noisegate.app.cli.main import run
    from noisegate.app.runs import work

    if kind != "page":  # the package that draws it is another
        work.extensions = lambda group: {}  # type: ignore[attr-defined]
    few = [part for setting in FEW for part in ("--set", setting)]
    source = {
        "csv": [str(folder / "records.csv"), "--schema", str(folder / "schema.toml")],
        "page": [str(folder / "records.csv"), "--schema", str(folder / "schema.toml")],
        "image": [str(folder / "images"), *IMAGES, *few],
    }[kind]
    books = ["--ledger", str(folder / f"{kind}.sqlite"), "--out", str(folder / kind)]
    sys.argv = ["noisegate", "fit", *source, "--epsilon", "1", *books]
    return run


def walk(run: Callable[[], object]) -> Counter[tuple[str, str]]:
    """Runs something in this process; returns how often each function of the package was called."""
    calls: Counter[tuple[str, str]] = Counter()
    inside = tuple(f"{source}{os.sep}" for source in SOURCES)

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_flags & FUNCTION
            and code.co_filename.startswith(inside)
        ):
            name = code.co_qualname
            if name.startswith("draw"):  # one map is drawn from one seed
                name += f" of seed {frame.f_locals.get('seed')}"
            calls[str(Path(code.co_filename).relative_to(ROOT)), name] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return calls


def walks() -> dict[str, Counter[tuple[str, str]]]:
    """Returns the calls of each of the runs, each in a process of its own."""
    seen = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder)
        write_images(folder)
        for kind in KINDS:
            command = [sys.executable, __file__, "--walk", kind, str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"the run {kind!r} failed:\n{done.stdout}{done.stderr}")
            rows = json.loads((folder / f"{kind}.json").read_text("utf-8"))
            seen[kind] = Counter(
                {(file, function): count for file, function, count in rows}
            )
    return seen


def modules() -> list[Path]:
    """Returns every file of source."""
    return sorted(path for source in SOURCES for path in source.rglob("*.py"))


def tests() -> list[Path]:
    """Returns every file of tests."""
    return [
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("packages/*/tests/**/*.py"),
        ROOT / "conftest.py",
    ]


def beside() -> list[Path]:
    """Returns every file of benchmarks and examples."""
    return [*ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("examples/**/*.py")]


def homes() -> dict[str, list[str]]:
    """Returns the public classes and functions that more than one module of a package defines."""
    entered = defaultdict(set)
    for path in modules():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(
                node, ast.ClassDef | ast.FunctionDef
            ) and not node.name.startswith("_"):
                entered[node.name].add(str(path.relative_to(ROOT)))
    return {
        name: sorted(paths) for name, paths in sorted(entered.items()) if len(paths) > 1
    }


def own_settings() -> int:
    """Returns how many settings the default for images has that no base of it has."""
    from noisegate_images.methods.joint import JointEmbedding

    inherited = {
        name
        for base in JointEmbedding.__mro__[1:]
        for name in vars(base).get("__dataclass_fields__", {})
    }
    return len(set(JointEmbedding.__dataclass_fields__) - inherited)


def base_install() -> float:
    """Returns the megabytes of what `pip install noisegate` brings, of the files that are installed here."""
    seen: set[str] = set()

    def walk_requirements(name: str) -> float:
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in seen:
            return 0.0
        seen.add(key)
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # of another system
            return 0.0
        size = sum(
            os.path.getsize(path)
            for file in installed.files or []
            if (path := file.locate()).is_file()
        )
        needed = [Requirement(text) for text in installed.requires or []]
        return size + sum(
            walk_requirements(requirement.name)
            for requirement in needed
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        )

    return walk_requirements("noisegate") / 1e6


def without_doctest() -> list[str]:
    """Returns the public names whose docstring has no example."""
    import noisegate

    names = [name for name in noisegate.__all__ if not name.startswith("__")]
    return [
        name for name in names if ">>>" not in (getattr(noisegate, name).__doc__ or "")
    ]


def without_shape() -> list[str]:
    """Returns the arguments and results of functions that are tensors, not several in one, and say no shape."""
    bare = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            hints = {argument.arg: argument.annotation for argument in arguments} | {
                "return": node.returns
            }
            for name, hint in hints.items():
                text = ast.unparse(hint) if hint else ""
                alone = not SEVERAL.search(text)
                if alone and re.search(r"\bTensor\b", text) and not SHAPED.search(text):
                    bare.append(
                        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}({name}: {text})"
                    )
    return sorted(bare)


def measure() -> dict[str, Any]:
    """Returns the figures by what they are called in `limits.toml`."""
    calls = walks()
    files = {kind: len({file for file, _ in seen}) for kind, seen in calls.items()}
    counts = {
        call: max(seen[call] for seen in calls.values())
        for seen in calls.values()
        for call in seen
    }
    drawn = [
        n
        for (path, name), n in counts.items()
        if path.endswith("queries/fourier.py") and "draw" in name
    ]
    source = size_of(modules())
    classes = our_classes()
    return {
        "tokens of source": source.tokens,
        "tokens of tests": size_of(tests()).tokens,
        "tokens of benchmarks and examples": size_of(beside()).tokens,
        "tokens of the trusted base": size_of(trusted_files()).tokens,
        "tokens a code line of source": round(source.tokens_per_code_line, 2),
        "documentation of source, % of lines": round(
            100 * source.documentation_share, 1
        ),
        "lines of source over 88 characters, %": round(
            100 * source.wide_lines / source.lines, 1
        ),
        "classes in the deepest chain": len(longest_chain(classes)),
        "overrides of concrete methods": len(concrete_overrides(classes)),
        "imports by string inside one package": len(string_imports()),
        "checks of a column's class outside schema/kinds": len(kind_checks()),
        "files that a CSV fit enters": files["csv"],
        "files that a CSV fit enters with its page": files["page"],
        "files that an image fit enters": files["image"],
        "files that a gradient run enters": files["gradient"],
        "settings of joint's own": own_settings(),
        "megabytes of the base install": round(base_install()),
        "calibrations in one fit": max(
            n for (_, name), n in counts.items() if name == "plan_sums"
        ),
        "drawings of a map's frequencies in one fit": max(drawn),
        "public names with more than one home": len(homes()),
        "public names without a doctest": len(without_doctest()),
        "tensors without a shape": len(without_shape()),
    }


def is_beyond(figure: float, limits: dict[str, Any], which: str) -> bool:
    """Returns whether a figure is on the wrong side of its limit or goal; some of them must not fall."""
    if limits.get("at_least", False):
        return bool(figure < limits[which])
    return bool(figure > limits[which])


def rooms() -> dict[str, CodeSize]:
    """Returns the size of each folder of source, by package and name."""
    sizes = {}
    for source in SOURCES:
        for folder in sorted(
            path
            for path in source.iterdir()
            if path.is_dir() and path.name != "__pycache__"
        ):
            sizes[f"{source.name}/{folder.name}"] = size_of(folder.rglob("*.py"))
    return sizes


def room_summary(size: CodeSize) -> str:
    """Returns tokens, density and documentation of a room on one line."""
    documentation = f"{100 * size.documentation_share:>5.1f} % documentation"
    return f"{size.tokens:>8,} tokens {size.tokens_per_code_line:>5.1f} a line {documentation}"


def main() -> None:
    """Prints the table; exits with 1 where a figure is above its limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--files",
        action="store_true",
        help="also what each run entered, and the names of two homes",
    )
    parser.add_argument(
        "--walk", nargs=2, metavar=("KIND", "FOLDER"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.walk:
        kind = options.walk[0]
        folder = Path(options.walk[1])
        calls = walk(prepare(kind, folder))
        rows = [
            [file, function, count] for (file, function), count in sorted(calls.items())
        ]
        (folder / f"{kind}.json").write_text(json.dumps(rows), encoding="utf-8")
        return
    figures = measure()
    limits = tomllib.loads(LIMITS.read_text("utf-8"))
    missed = [
        name
        for name, figure in figures.items()
        if is_beyond(figure, limits[name], "limit")
    ]
    if options.json:
        print(
            json.dumps(
                {"figures": figures, "limits": limits, "missed": missed}, indent=2
            )
        )
    else:
        print(f"{'':48} {'figure':>9} {'limit':>9} {'goal':>9}")
        for name, figure in figures.items():
            limit = limits[name]["limit"]
            goal = limits[name]["goal"]
            remark = (
                "beyond the limit"
                if name in missed
                else "to go"
                if is_beyond(figure, limits[name], "goal")
                else ""
            )
            print(f"{name:48} {figure:>9,} {limit:>9,} {goal:>9,}  {remark}")
    if options.files:
        for kind, seen in walks().items():
            print(f"\n{kind}:", *sorted({file for file, _ in seen}), sep="\n  ")
        print(
            "\nmore than one home:",
            *(f"{name}: {', '.join(paths)}" for name, paths in homes().items()),
            sep="\n  ",
        )
        print("\nno doctest:", *without_doctest())
        print("\nno shape:", *without_shape(), sep="\n  ")
        classes = our_classes()
        print("\nthe deepest chain:", " < ".join(longest_chain(classes)))
        print(
            "\noverrides of concrete methods:", *concrete_overrides(classes), sep="\n  "
        )
        print("\nimports by string inside one package:", *string_imports(), sep="\n  ")
        print("\nchecks of a column's class:", *kind_checks(), sep="\n  ")
        print("\nrooms:")
        print(
            *(f"  {name:24} {room_summary(size)}" for name, size in rooms().items()),
            sep="\n",
        )
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
