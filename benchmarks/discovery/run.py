"""How well `noisegate schema discover` finds bounds: on simulated columns, and on tables that are given.

    python benchmarks/discovery/run.py [--repeats 20] [--table FILE.csv ...]

Simulated columns are asked for together, ten numeric ones, at each number of records and each ε; of a table all numeric
columns but constant ones, on samples of its records. For each column it tells, over the repeats: the share of records
that its bounds move (clipped), how often both the 0.5 % and the 99.5 % quantile are inside, and the width of the bounds
over the distance of the least and the largest value. The page is README.md.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
from harness.options import Option, read_options

from noisegate import discover_schema
from noisegate.errors import OptionError

RECORDS, EPSILONS = (858, 5_000, 20_000), (0.1, 0.5, 1.0)
Columns = dict[str, npt.NDArray[Any]]


class Found(NamedTuple):
    """What came of one column in one run."""

    clipped: float
    covered: bool
    width: float


def simulated(rows: int, random: np.random.Generator) -> Columns:
    """Returns ten columns as tables have them."""

    def often_zero(values: npt.NDArray[Any], share: float) -> npt.NDArray[Any]:
        return np.where(random.random(rows) < share, 0, values)

    return {
        "age": random.integers(17, 91, rows),
        "year": random.integers(1950, 2021, rows),
        "income": np.rint(np.exp(random.normal(10, 0.8, rows))).astype(int),
        "visits": random.poisson(2, rows),
        "sick": (random.random(rows) < 0.2).astype(int),
        "dose, 60 % zero": often_zero(np.round(random.gamma(1.2, 8, rows), 2), 0.6),
        "packs, 85 % zero": often_zero(np.round(random.gamma(1.2, 8, rows), 2), 0.85),
        "change": random.normal(0, 3, rows),
        "sodium": np.round(random.normal(140, 12, rows), 1),
        "ratio": np.exp(random.normal(0, 1, rows)),
    }


def table(path: Path) -> Columns:
    """Returns the numeric columns of a CSV file."""
    read = pyarrow.csv.read_csv(
        path, convert_options=pyarrow.csv.ConvertOptions(null_values=["", "?", "NA"])
    )
    numbers = (
        name
        for name in read.column_names
        if pa.types.is_integer(read[name].type) or pa.types.is_floating(read[name].type)
    )
    columns = {name: read[name].to_numpy() for name in numbers}
    return {
        name: values
        for name, values in columns.items()
        if np.nanmin(values) < np.nanmax(values)
    }


def sampled(columns: Columns, rows: int, random: np.random.Generator) -> Columns:
    """Returns so many of the records, drawn with replacement where there are fewer."""
    size = len(next(iter(columns.values())))
    chosen = random.choice(size, rows, replace=rows > size)
    return {name: values[chosen] for name, values in columns.items()}


def discovered(columns: Columns, epsilon: float) -> Iterator[tuple[str, Found | None]]:
    """Yields what one discovery finds of each column, None where it finds nothing."""
    arrow = pa.table(
        {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    )
    kinds = {
        name: "integer" if values.dtype.kind == "i" else "continuous"
        for name, values in columns.items()
    }
    records = len(next(iter(columns.values())))
    found = {
        one.name: one
        for one in discover_schema(
            arrow, epsilon=epsilon, kinds=kinds, records=records
        ).schema.columns
    }
    for name, values in columns.items():
        known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        column = found.get(name)
        if column is None or not len(known) or known.min() == known.max():
            yield name, None
            continue
        low, high = np.quantile(known, [0.005, 0.995])
        yield (
            name,
            Found(
                clipped=float(np.mean((known < column.lower) | (known > column.upper))),
                covered=bool(column.lower <= low and high <= column.upper),
                width=float(
                    (column.upper - column.lower) / (known.max() - known.min())
                ),
            ),
        )


def measure(title: str, make: Any, repeats: int) -> None:
    """Prints one line for each number of records and ε, and the columns of the last of them."""
    print(
        f"\n{title}\n\n| records | ε | found | clipped | worst column | covered | width |\n"
        + "| ---: " * 7
        + "|"
    )
    for records in RECORDS:
        for epsilon in EPSILONS:
            found: defaultdict[str, list[Found | None]] = defaultdict(list)
            try:
                for seed in range(repeats):
                    for name, one in discovered(
                        make(records, np.random.default_rng(seed)), epsilon
                    ):
                        found[name].append(one)
            except OptionError as error:
                needed = str(error).split("Nothing was spent. ")[1].split(";")[0]
                print(f"| {records:,} | {epsilon:g} | refused: {needed} |")
                continue
            print(f"| {records:,} | {epsilon:g} | {line(found)} |", flush=True)


def line(found: dict[str, list[Found | None]]) -> str:
    """Returns the figures of all columns: means of shares, the worst column's clipped share, the median width."""
    every = [one for several in found.values() for one in several]
    seen = [one for one in every if one is not None]
    worst = max(
        (float(np.mean([one.clipped for one in several if one])), name)
        for name, several in found.items()
        if any(several)
    )
    clipped, covered = (
        np.mean([getattr(one, name) for one in seen]) for name in ("clipped", "covered")
    )
    width = np.median([one.width for one in seen])
    return f"{len(seen) / len(every):.0%} | {clipped:.1%} | {worst[0]:.1%} ({worst[1]}) | {covered:.0%} | {width:.2f}"


def main() -> None:
    """Runs the benchmark."""
    options = read_options(
        __doc__,
        repeats=20,
        table=Option(kind=Path, default=[], is_list=True),
    )
    measure("Ten simulated columns", simulated, options.repeats)
    for path in options.table:
        columns = table(path)
        title = f"{path.stem}: {len(columns)} numeric columns"
        measure(
            title,
            lambda rows, random, columns=columns: sampled(columns, rows, random),
            options.repeats,
        )


if __name__ == "__main__":
    main()
