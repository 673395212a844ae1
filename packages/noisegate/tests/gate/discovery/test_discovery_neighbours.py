"""Guarantees G-01 and G-15, measured: discovery on two neighbouring tables is as alike as (ε, δ) says.

In integers, one record moves the counts by at most the stated sensitivity. In distribution, the probability of an event
on one table is at most e^ε times that on the other, plus δ. Probabilities are estimated, with exact (Clopper, Pearson)
bounds at an error of 1e-7 each, so all tests of this file together fail by chance with probability below 1e-4.
"""

import math
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from noisegate.errors import OptionError
from noisegate.gate.discovery import findings as bounds
from noisegate.gate.discovery import findings as search
from noisegate.gate.discovery.exact_counts import (
    FINE,
    HashPartition,
    bin_edges,
    read_counts,
)
from noisegate.gate.discovery.raw import RawTable
from noisegate.gate.discovery.schema_gate import SchemaGate
from noisegate.privacy import noise
from noisegate.privacy.events import gaussian_of
from noisegate.privacy.schema_certificate import RECORD, SCHEMA_HASH

EPSILON = 1.0
DELTA = 0.05
ALPHA = 1e-7

KINDS = {
    "a": "integer",
    "b": "continuous",
    "c": "date",
    "d": "categorical",
    "e": "categorical",
}
RECORDS = {
    "plain": (5, 0.5, date(2000, 1, 1), "x", "y"),
    "extreme": (2**62, -math.inf, date(9999, 12, 31), "never seen", "y" * 500),
    "missing": (None, None, None, None, ""),
    "nan": (0, math.nan, date(1, 1, 1), "x", None),
}


def table(records):
    types = [pa.int64(), pa.float64(), pa.date32(), pa.string(), pa.string()]
    cells = zip(*records, strict=True)
    return pa.table(
        {
            name: pa.array(column, kind)
            for name, column, kind in zip(KINDS, cells, types, strict=True)
        }
    )


def exact(records):
    """Every exact count of both looks, by event, with the same public choices whatever the records."""
    raw = RawTable(table(records))
    partial = raw.describe_columns(KINDS, None, None)
    numeric = [gap for gap in partial.gaps if gap.numeric]
    texts = [gap.name for gap in partial.gaps if not gap.numeric]
    looks = {gap.name: bin_edges(gap.kind) for gap in numeric}
    first = read_counts(raw, partial, looks, dict.fromkeys(texts, HashPartition()))
    fine = {
        name: look.divide_evenly(look.size // 2, look.size - 1)
        for name, look in looks.items()
    }
    second = read_counts(raw, partial, fine, {})
    levels = {}
    for name in texts:
        levels |= {
            (name, level): count
            for level, count in zip(*first.levels[name].counted_levels(), strict=True)
        }
        levels[name, None] = first.missing[name]
    return {
        "magnitudes": np.concatenate(
            [np.append(first.bins[name], first.missing[name]) for name in looks]
        ),
        "cells": np.concatenate([second.bins[name] for name in fine]),
        "levels": levels,
    }


@pytest.mark.parametrize(
    "extra",
    [
        {"age": None, "ill": True},
        {"age": 20.0, "ill": None},
        {"age": 2**40, "ill": False},
    ],
)
def test_neighbours_whose_types_differ_publish_the_same_facts(
    tmp_path, extra, monkeypatch
):
    """pandas writes other types into Parquet as soon as one record lacks a value."""
    monkeypatch.setattr(SchemaGate, "_check_noise", lambda *_: None)
    records = [{"age": 20 + number, "ill": number % 3 > 0} for number in range(9)]
    facts = []
    for number, rows in enumerate((records, [*records, extra])):
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame(rows).to_parquet(path, index=False)
        with pytest.raises(
            OptionError, match=r'add kinds "age=\.\.\.,ill=\.\.\."'
        ) as caught:
            SchemaGate(path, epsilon=1.0)
        gate = SchemaGate(path, epsilon=1.0, kinds={"age": "integer", "ill": "boolean"})
        facts.append(
            (
                str(caught.value).replace(path.name, ""),
                gate.plan.events,
                gate.discover().certificate.public,
            )
        )
        facts[-1][-1].pop(SCHEMA_HASH, None)  # of noisy bounds
    assert facts[0] == facts[1]


def moved(one, other):
    if isinstance(one, dict):
        return sum(
            (one.get(key, 0) - other.get(key, 0)) ** 2
            for key in one.keys() | other.keys()
        )
    return int(np.square(one - other).sum())


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("extra", RECORDS)
def test_a_record_moves_the_exact_counts_by_at_most_the_sensitivity(
    extra, adjacency, monkeypatch
):
    monkeypatch.setattr(
        SchemaGate, "_check_noise", lambda *_: None
    )  # so few records show nothing
    rest = [RECORDS["plain"]] * 3 + [RECORDS["missing"], RECORDS["nan"]]
    records = None if adjacency == "add-remove" else 6
    plan = SchemaGate(
        table(rest), epsilon=100.0, kinds=KINDS, adjacency=adjacency, records=records
    ).plan
    others = (
        [[]] if adjacency == "add-remove" else [[record] for record in RECORDS.values()]
    )
    for other in others:
        with_extra = exact([*rest, RECORDS[extra]])
        without = exact(rest + other)
        for event in plan.events:
            assert (
                RECORD**2 * moved(with_extra[event.name], without[event.name])
                <= gaussian_of(event).sensitivity ** 2
            )


def test_the_noise_on_both_looks_has_the_stated_scale(monkeypatch):
    drawn = {}
    add_noise = noise.add_noise

    def spied(sums, **how):
        noisy = add_noise(sums, **how)
        drawn.setdefault(sums.size, []).append((noisy - sums) / how["noise_std"])
        return noisy

    monkeypatch.setattr(noise, "add_noise", spied)
    for _ in range(10):
        gate = SchemaGate(table([RECORDS["plain"]]), epsilon=1.0, kinds=KINDS)
        gate.discover()
    for event in gate.plan.events[:2]:
        sample = np.concatenate(drawn[event.coordinates])
        assert sample.size == 10 * event.coordinates
        low = stats.chi2.ppf(ALPHA, sample.size)
        high = stats.chi2.isf(ALPHA, sample.size)
        assert low < np.square(sample).sum() < high


def within_the_guarantee(hits, runs, other_hits, other_runs):
    """Whether P(event) ≤ e^ε P′(event) + δ is not refuted, for the event and for its opposite, in both directions."""
    verdicts = []
    for first, n, second, m in (
        (hits, runs, other_hits, other_runs),
        (other_hits, other_runs, hits, runs),
    ):
        for one, other in ((first, second), (n - first, m - second)):
            least = stats.binomtest(one, n).proportion_ci(1 - 2 * ALPHA, "exact").low
            most = stats.binomtest(other, m).proportion_ci(1 - 2 * ALPHA, "exact").high
            verdicts.append(least <= math.exp(EPSILON) * most + DELTA)
    return all(verdicts)


def levels_found(data):
    discovery = SchemaGate(
        data, epsilon=EPSILON, delta=DELTA, kinds={"x": "categorical"}
    ).discover()
    return (
        set(discovery.schema.column("x").levels)
        if "[columns.x]" in discovery.toml
        else set()
    )


def test_a_level_of_k_records_is_nearly_as_likely_to_be_seen_as_one_of_k_and_one_more():
    # Levels do not know of one another, so one table shows many at once; that of k = 0 is never seen.
    copies = 250
    tables = 8
    largest = 13
    texts = [
        f"{k} {copy}"
        for k in range(1, largest + 1)
        for copy in range(copies)
        for _ in range(k)
    ]
    seen = np.zeros(largest + 1, dtype=int)
    for _ in range(tables):
        for level in levels_found(pa.table({"x": texts})) - {"other"}:
            seen[int(level.split()[0])] += 1
    runs = copies * tables
    assert seen[largest] > 0.9 * runs  # the test sees both ends of the threshold
    for k in range(largest):
        assert within_the_guarantee(int(seen[k]), runs, int(seen[k + 1]), runs), k


@pytest.mark.parametrize(
    "rest",
    [["a"], *[pytest.param(["a"] * of, marks=pytest.mark.slow) for of in (2, 40)]],
)
def test_a_record_with_a_level_of_its_own_is_nearly_never_seen_in_files(tmp_path, rest):
    runs = 250
    files = (tmp_path / "with.csv", tmp_path / "without.csv")
    for file, texts in zip(files, ([*rest, "zebra"], rest), strict=True):
        file.write_text("x\n" + "\n".join(texts) + "\n")
    for level in ("zebra", "a"):
        seen, without = (
            sum(level in levels_found(file) for _ in range(runs)) for file in files
        )
        assert within_the_guarantee(seen, runs, without, runs)


def looked_at(values):
    return SchemaGate(
        pa.table({"x": values}), epsilon=EPSILON, delta=DELTA, kinds={"x": "integer"}
    )


@pytest.mark.parametrize("above", [-2, 0])
def test_a_record_with_an_extreme_value_hardly_moves_the_bounds(above):
    runs = 150
    rest = [5] * 40
    std = looked_at(rest).plan.events[0].noise_std / RECORD
    # As many extreme records as the threshold itself, and two fewer: there, one more matters most.
    extreme = math.floor(bounds.noise_threshold(std, bin_edges("integer").size)) + above

    def hits(count):
        discoveries = (
            looked_at(rest + [2**40] * count).discover() for _ in range(runs)
        )
        return sum(
            discovery.schema.column("x").upper >= 2**39
            for discovery in discoveries
            if "[columns.x]" in discovery.toml
        )

    assert within_the_guarantee(hits(extreme), runs, hits(extreme + 1), runs)


# Ladders put every value in exactly one cell, and bounds come out around what was put in.

LADDERS_KINDS = ["continuous", "integer", "date", "datetime", "datetime-utc"]
VALUES = {
    "continuous": np.array(
        [0.0, -0.0, 1e-300, 1.0, -1.0, 0.75, 2.0**127, 1e300, -1e300, np.inf, -np.inf]
    ),
    "integer": np.array([0, 1, -1, 2, -2, 3, 2**52, -(2**52), 2**63 - 1, -(2**63)]),
    "date": np.array([-719162, 0, 1, -1, 2932896]),
    "datetime": np.array([0, -(10**17), 10**17, 2**62]),
    "datetime-utc": np.array([0, 1]),
}


@pytest.mark.parametrize("kind", LADDERS_KINDS)
def test_every_value_is_counted_exactly_once(kind):
    look = bin_edges(kind)
    assert (np.diff(look.edges) > 0).all()
    for value in VALUES[kind]:
        counts = look.count_values(np.array([value]))
        assert counts.shape == (look.size,)
        assert counts.sum() == 1
        assert counts.max() == 1
    together = look.count_values(VALUES[kind])
    assert (
        together.tolist()
        == sum(look.count_values(np.array([value])) for value in VALUES[kind]).tolist()
    )


@pytest.mark.parametrize("kind", LADDERS_KINDS)
def test_a_second_look_counts_what_is_inside_once_and_nothing_else(kind):
    look = bin_edges(kind)
    middle = look.size // 2
    for first, last in ((middle, middle), (middle - 3, middle + 2), (0, look.size - 1)):
        fine = look.divide_evenly(first, last)
        assert fine.size <= FINE
        assert fine.edges[0] == look.edges[first]
        assert fine.edges[-1] == look.edges[last + 1]
        inside = np.array([fine.edges[0], fine.edges[-2]])
        assert fine.count_values(inside).sum() == 2
        outside = np.array([fine.edges[0] - abs(fine.edges[0]) / 2 - 1, fine.edges[-1]])
        assert fine.count_values(outside).sum() == 0


def seen(kind, values, *, noise=0.0, seed=0):
    """Returns the bounds that two looks with Gaussian noise give, as discovery takes them."""
    random = np.random.default_rng(seed)
    look = bin_edges(kind)
    std = noise or 1e-9
    noisy = look.count_values(values) + std * random.standard_normal(look.size)
    occupied = search.find_occupied_bins(noisy, std, look.zero_bin)
    if occupied is None:
        return None
    fine = search.choose_cells(look, occupied, noisy, std)
    cells = fine.count_values(values) + std * random.standard_normal(fine.size)
    ends = search.find_bounds(look, occupied, noisy, fine, cells, std)
    return "zeros" if ends is None else search.round_bounds(kind, *ends)


@pytest.mark.parametrize("noise", [0.0, 30.0])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_cover_nearly_all_values_and_are_not_far_off(noise, seed):
    random = np.random.default_rng(seed)
    for values, narrow in (
        (random.integers(17, 91, 20_000), (0, 130)),
        (random.integers(1995, 2021, 20_000), (1500, 2100)),
        (random.integers(-40, 45, 20_000), (-70, 70)),
    ):
        lower, upper = seen("integer", values, noise=noise, seed=seed)
        assert np.mean((values < lower) | (values > upper)) < 0.03
        assert narrow[0] <= lower < upper <= narrow[1]
    lower, upper = seen(
        "continuous", np.exp(random.normal(0, 1, 20_000)), noise=noise, seed=seed
    )
    assert -0.1 <= lower < 0.2
    assert 5 < upper < 1100


@pytest.mark.parametrize(
    ("kind", "value"), [("integer", 7), ("continuous", 7.0), ("date", 7)]
)
def test_a_constant_column_gets_two_different_bounds(kind, value):
    lower, upper = seen(kind, np.full(1000, value))
    assert lower < upper
    assert lower <= (date(1970, 1, 8) if kind == "date" else value) <= upper


def test_empty_cells_are_hardly_ever_taken_for_occupied():
    results = [
        seen("continuous", np.zeros(0), noise=10.0, seed=seed) for seed in range(300)
    ]
    # Each with probability 1/1000: more than six of 300 with probability below 1e-7.
    assert sum(result is not None for result in results) <= 6


@pytest.mark.parametrize(
    ("kind", "ends", "expected"),
    [
        ("continuous", (-(2.0**-128), 31.75), (0, 32)),
        ("continuous", (61.3, 92.7), (61, 93)),
        ("continuous", (-31.0, -0.5), (-31, 0)),
        ("continuous", (2.5e-5, 4.23e-4), (0, 4.3e-4)),
        ("integer", (17, 2047), (0, 2100)),
        ("integer", (1 - 2**52, 2**52 - 1), (1 - 2**52, 2**52 - 1)),
        ("date", (-3650, 3600), (date(1960, 1, 1), date(1979, 12, 31))),
        (
            "datetime",
            (0, 10**14),
            (datetime(1970, 1, 1), datetime(1973, 12, 31, 23, 59, 59, 999_999)),
        ),
        (
            "datetime-utc",
            (0, 10**6),
            (
                datetime(1970, 1, 1, tzinfo=UTC),
                datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            ),
        ),
    ],
)
def test_bounds_are_rounded_outwards_and_to_zero(kind, ends, expected):
    assert search.round_bounds(kind, *ends) == expected


@pytest.mark.parametrize(
    ("records", "std"), [(858, 10.0), (5000, 50.0), (20_000, 50.0)]
)
@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_what_is_mostly_zero_gets_bounds_of_the_rest(kind, records, std):
    random = np.random.default_rng(7)
    rest = random.uniform(1, 81, records)
    values = np.where(
        random.random(records) < 0.6,
        0.0,
        rest if kind == "continuous" else np.rint(rest),
    )
    for seed in range(10):
        lower, upper = seen(kind, values, noise=std, seed=seed)
        assert lower == 0
        assert 60 <= upper <= 130
        assert np.mean(values > upper) < 0.05


@pytest.mark.parametrize(
    ("low", "high"), [(-(2.0**-105), -(2.0**-106)), (2.0**-106, 2.0**-105)]
)
def test_bins_next_to_zero_that_noise_alone_found_have_bounds(low, high):
    lower, upper = search.round_bounds("continuous", low, high)
    assert lower <= low < high <= upper
    assert upper <= 0 or high > 0
    assert lower >= 0 or low < 0
