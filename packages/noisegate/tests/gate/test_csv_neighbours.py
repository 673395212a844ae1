"""Removing one record of a CSV file moves every later one in it, and changes a sum by no more than its sensitivity."""

import numpy as np
import pytest
from tests.shared.columns import boolean, categorical
from tests.shared.sums import squared

from noisegate import discover_schema
from noisegate.gate.discovery import exact_counts
from noisegate.gate.gate import Gate
from noisegate.methods.registry import method_named
from noisegate.privacy import noise
from noisegate.schema import Schema
from noisegate.sources.tables import csv_file

LEVEL = "Ward 7, General Hospital A1234\r\n" + "B" * 24
LINE = f'"{LEVEL}",true\n'.encode()
EXTRA = b'"' + b"q" * 23 + b'",true\n'
PIECE = 1024


@pytest.fixture(autouse=True)
def levels_of_two_lines(monkeypatch):
    """A schema refuses them; a cell of two lines shows best where it was cut."""
    monkeypatch.setattr(
        "noisegate.schema.schema.check_visible", lambda what, values: None
    )
    monkeypatch.setattr(exact_counts, "first_invisible", lambda value: None)


@pytest.fixture
def neighbours(tmp_path, monkeypatch):
    """Two files, the second without the first record. In the first, every piece that is read ends between CR and LF."""
    read_first = 3  # to see whether there is a byte order mark
    assert len(LINE) == 64
    assert LINE.index(b"\r\n") == 31
    assert (len(b"k,y\n" + EXTRA) + 32) % len(LINE) == read_first
    monkeypatch.setattr(csv_file, "_PIECE_BYTES", PIECE)
    paths = tmp_path / "d.csv", tmp_path / "e.csv"
    for path, first in zip(paths, (EXTRA, b""), strict=True):
        path.write_bytes(b"k,y\n" + first + LINE * 200)
    return paths


@pytest.fixture
def sums(monkeypatch):
    """The exact sums, as they are before noise."""
    seen = []
    add_noise = noise.add_noise

    def spy(values, **options):
        seen.append(values.copy())
        return add_noise(values, **options)

    monkeypatch.setattr(noise, "add_noise", spy)
    return seen


@pytest.mark.parametrize("name", ["dp-merf", "pairwise"])
def test_a_sum_changes_by_one_record(name, neighbours, sums):
    columns = (
        categorical("k", (LEVEL, "other"), other="other"),
        boolean("y"),
    )
    schema = Schema(columns=columns, label="k")
    totals = []
    for path in neighbours:
        sums.clear()
        release = method_named(name)().query(Gate(path, schema=schema, epsilon=1.0))
        totals.append(list(sums))
    for one, other, event in zip(*totals, release.certificate.events, strict=True):
        assert one.shape == other.shape
        assert 0 < squared(one - other) <= event.sensitivity**2


def test_a_unit_is_one_unit_on_every_line(neighbours, sums):
    schema = Schema(columns=(boolean("y"),), label="y")
    totals = []
    for path in neighbours:
        sums.clear()
        method_named("pairwise")().query(
            Gate(path, schema=schema, epsilon=1.0, unit_column="k", contributions=1)
        )
        totals.append(max(int(np.abs(values).max()) for values in sums))
    assert totals[0] == 2 * totals[1]  # two units, and one without the first record


def test_discovery_counts_one_level(neighbours, monkeypatch):
    seen = []
    counts_above = noise.noisy_counts_above

    def spy(counts, **options):
        seen.append(sorted(counts.tolist()))
        return counts_above(counts, **options)

    monkeypatch.setattr(noise, "noisy_counts_above", spy)
    for path in neighbours:
        seen.append("next")
        discover_schema(path, epsilon=5.0, kinds={"k": "categorical", "y": "boolean"})
    levels = [entry for entry in seen if entry != "next" and entry]
    unit = levels[0][0]
    assert levels == [[unit, 200 * unit], [200 * unit]]
