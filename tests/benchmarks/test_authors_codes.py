"""Records of the authors' array are found in a table whose levels have other numbers, each once."""

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_hp"))

from authors_codes import NAMES, NUMBERS, matched_rows, renumbered, simplified
from discretised import domain

SIZES = tuple(domain("bounded").values())


def table(rows=3000, seed=0):
    random = np.random.default_rng(seed)
    return np.stack([random.integers(0, size, rows) for size in SIZES], axis=1)


def as_authors(ours, seed=1):
    """The same codes with levels in another order, a draw of the rows."""
    random = np.random.default_rng(seed)
    theirs = ours.copy()
    for column, size in enumerate(SIZES):
        if column not in NUMBERS:
            theirs[:, column] = random.permutation(size)[ours[:, column]]
    chosen = random.permutation(len(ours))[:2000]
    return theirs, chosen


def test_each_record_is_found_once_whatever_the_numbers_of_levels():
    ours = table()
    theirs, chosen = as_authors(ours)
    assert np.array_equal(renumbered(theirs, ours), theirs)
    rows, untold = matched_rows(theirs[chosen], ours)
    assert (
        untold == 0
        and len(np.unique(rows)) == 2000
        and np.array_equal(ours[rows], ours[chosen])
    )


def test_a_level_that_no_single_record_tells_is_matched_by_all_others():
    ours = table()
    country = NAMES.index("native-country")
    # Two records alike but for their country, which no other record has.
    ours[0] = ours[1]
    ours[ours[:, country] == 41, country] = 40
    ours[0, country] = 41
    theirs, _ = as_authors(ours)
    rows, untold = matched_rows(theirs, ours)
    assert untold == 1 and sorted(rows) == list(range(3000))


def test_the_simple_version_follows_from_the_bounded_one():
    codes = np.zeros((1, 15), dtype=np.int64)
    codes[
        0,
        [
            NAMES.index(name)
            for name in ("age", "race", "hours-per-week", "capital-gain")
        ],
    ] = 40, 3, 9, 7
    found = dict(zip(NAMES, simplified(codes)[0], strict=True))
    # 57 years are the fifth ten from 10 to 19 on; hours stop at the third pair; others are merged.
    assert (
        found["age"],
        found["race"],
        found["hours-per-week"],
        found["capital-gain"],
    ) == (4, 1, 3, 1)
