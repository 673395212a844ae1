"""The authors' own discretised Adult arrays, against the rule of `discretised`, and their records in the training file.

    python benchmarks/dp_hp/authors_codes.py --data DIR --codes DIR [--json FILE]

DIR of --data holds train.csv of Adult, that of --codes the authors' sdgym_bounded_adult.npy and sdgym_simple_adult.npy.
They number the levels of a categorical column in an order of their own, which is read off records that are told by
their numbers alone; after that every row must be one of the training file's, as often as it is there.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import numpy.typing as npt
from discretised import BOUNDED, SCHEMA, SIMPLE, discretise, domain
from harness.options import needed, optional, read_options
from harness.printing import run_main
from harness.results import write_json

from noisegate import Schema
from noisegate.errors import DataError
from noisegate.sources.frames import read_table

Codes = npt.NDArray[np.int64]
NAMES = tuple(domain("bounded"))
NUMBERS = tuple(place for place, name in enumerate(NAMES) if name in BOUNDED)
# Where the authors' codes begin: ages are years, education-num counts from 1.
FIRST = {"age": BOUNDED["age"].lower, "education-num": BOUNDED["education-num"].lower}


def read_codes(folder: Path, version: str = "bounded") -> Codes:
    """Returns the authors' array, (22561, 15), with ages and education-num counted from 0 as here.

    Raises:
        DataError: if it is not there, or of another shape.
    """
    path = folder / f"sdgym_{version}_adult.npy"
    if not path.exists():
        raise DataError(
            f"{path} is missing; it is in the data folder of the authors' program for DP-HP"
        )
    codes: Codes = np.load(path).astype(np.int64)
    if codes.ndim != 2 or codes.shape[1] != len(NAMES):
        raise DataError(
            f"{path} has shape {codes.shape}; expected {len(NAMES)} columns"
        )
    if version == "bounded":
        codes -= np.asarray([FIRST.get(name, 0) for name in NAMES])
    return codes


def renumbered(authors: Codes, ours: Codes) -> Codes:
    """Returns our codes with the levels numbered as the authors do; one that no record tells keeps −1.

    Records whose numbers occur once in our table tell which level of ours is which of theirs.
    """
    of_numbers: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(map(tuple, ours[:, NUMBERS].tolist())):
        of_numbers[row].append(place)
    told = [
        (place, of_numbers[row][0])
        for place, row in enumerate(map(tuple, authors[:, NUMBERS].tolist()))
        if len(of_numbers[row]) == 1
    ]
    theirs, same = np.asarray(told, dtype=np.intp).T
    result = ours.copy()
    for column in range(len(NAMES)):
        if column in NUMBERS:
            continue
        seen = np.zeros(
            (ours[:, column].max() + 1, authors[:, column].max() + 1), dtype=np.int64
        )
        np.add.at(seen, (ours[same, column], authors[theirs, column]), 1)
        result[:, column] = np.where(seen.any(axis=1), seen.argmax(axis=1), -1)[
            ours[:, column]
        ]
    return result


def matched_rows(authors: Codes, ours: Codes) -> tuple[npt.NDArray[np.intp], int]:
    """Returns a row of ours for each of the authors', each once, and how many agree in all but untold levels.

    Raises:
        DataError: if one is not in our table, whatever its untold levels.
    """
    free: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(map(tuple, renumbered(authors, ours).tolist())):
        free[row].append(place)
    rows, left = np.full(len(authors), -1, dtype=np.intp), []
    for place, row in enumerate(map(tuple, authors.tolist())):
        if free[row]:
            rows[place] = free[row].pop()
        else:
            left.append(place)
    untold = {row: places for row, places in free.items() if places and -1 in row}
    for place in left:
        row = authors[place].tolist()
        fits = (
            key
            for key in untold
            if all(mine in (-1, other) for mine, other in zip(key, row, strict=True))
        )
        key = next((key for key in fits if untold[key]), None)
        if key is None:
            raise DataError(
                f"row {place} of the authors' array is no record of the training file"
            )
        rows[place] = untold[key].pop()
    return rows, len(left)


def simplified(bounded: Codes) -> Codes:
    """Returns the codes of D* from those of D, by the rule of `discretised`."""
    codes = bounded.copy()
    for name, steps in SIMPLE.items():
        place = NAMES.index(name)
        codes[:, place] = steps.codes(
            bounded[:, place] + (FIRST["age"] if name == "age" else 0)
        )
    return codes


def main() -> int:
    """Compares the arrays with our rule; 0 when they agree, 1 when not, 2 when it cannot be told."""
    options = read_options(
        __doc__,
        data=needed(Path, "folder with train.csv of Adult"),
        codes=needed(Path, "folder with the authors' .npy files"),
        json=optional(Path),
    )
    table = read_table(options.data / "train.csv", Schema.from_toml(SCHEMA))
    authors, simple = read_codes(options.codes), read_codes(options.codes, "simple")
    ours = discretise(table, "bounded")
    numbers = [
        Counter(map(tuple, codes[:, NUMBERS].tolist())) for codes in (authors, ours)
    ]
    missing = sum((numbers[0] - numbers[1]).values())
    rows, untold = matched_rows(authors, ours)
    apart = {
        name: int(
            (simplified(authors)[:, place] != _from(simple, name)[:, place]).sum()
        )
        for place, name in enumerate(NAMES)
    }
    found = {
        "rows": len(authors),
        "rows whose numbers are not in the training file": missing,
        "rows found in the training file": len(np.unique(rows)),
        "of these by all but a level that no record tells": untold,
        "codes of the simple version that differ": sum(apart.values()),
    }
    for what, count in found.items():
        print(f"{what}: {count:,}")
    write_json(options.json, found)
    return 0 if not missing and not sum(apart.values()) else 1


def _from(simple: Codes, name: str) -> Codes:
    """Returns the authors' simple codes with a column counted from 0 as here."""
    return simple - (1 if name in FIRST else 0)


if __name__ == "__main__":
    run_main(main)
