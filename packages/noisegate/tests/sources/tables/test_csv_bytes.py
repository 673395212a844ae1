"""Bytes as they come: a CSV file is read with all its records, or refused by one error that quotes no cell."""

import csv
import io
import random
import traceback

import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.errors import NoisegateError
from noisegate.gate.discovery.raw import RawTable
from noisegate.schema import Schema
from noisegate.sources import TableSource
from noisegate.sources.tables import csv_file
from noisegate.sources.tables.csv_file import (
    CsvFile,
)
from noisegate.sources.units import UnitLimit

SECRET = "Zyzzyva7531"
NUMBERS = [integer("age", 0, 99, missing=True), continuous("rate", -1, 1, missing=True)]
JOB = categorical("job", ("nurse", "other"), other="other", missing=True)
SCHEMA = Schema([*NUMBERS, JOB, boolean("ok", missing=True)], ignore=["note"])
CSV_FUZZ_KINDS = {
    "age": "integer",
    "rate": "ignore",
    "job": "categorical",
    "ok": "boolean",
    "note": "ignore",
}
CSV_FUZZ_LINES = [
    "{i},0.5,nurse,yes,{i}",
    '{i},-1e-1,"{secret}, ""x""",no,',
    ",?,,,{secret}",
    '"{i}",1,"two\r\nlines",true,"a,b"',
]


def valid(draw):
    end = draw.choice(["\n", "\r\n", "\r"])
    records = [
        draw.choice(CSV_FUZZ_LINES).format(i=i, secret=SECRET)
        for i in range(draw.randrange(1, 12))
    ]
    last = draw.choice(["", end])
    return (
        draw.choice([b"", b"\xef\xbb\xbf"])
        + (end.join(["age,rate,job,ok,note", *records]) + last).encode()
    )


INSERTED = [bytes([byte]) for byte in b"\"\x00\r\n,\xff \\\x1a'"]
INSERTED += [b'""', b"\r\n", b"\xef\xbb\xbf", b"\xe2\x82"]
INSERTED += [
    b'"' + b"q" * 70_000 + b'"',
    b"h" * 70_000,
    b"\n" * 300,
    b"," * 300,
    b"9" * 5000,
    "\u202e".encode(),
]


def mutated(draw, content):
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        at = draw.randrange(len(content) + 1)
        kind = draw.randrange(5)
        if kind == 0 and at < len(content):
            content = (
                content[:at]
                + bytes([content[at] ^ (1 << draw.randrange(8))])
                + content[at + 1 :]
            )
        elif kind == 1:
            content = content[:at]
        elif kind == 2:
            content = content[:at] + content[at + draw.randrange(20) :]
        elif kind == 3:
            start = draw.randrange(len(content) + 1)
            content = (
                content[:at]
                + content[start : start + draw.randrange(60)]
                + content[at:]
            )
        else:
            content = content[:at] + draw.choice(INSERTED) + content[at:]
    return content


def csv_fuzz_by_python(content):
    """How many records Python reads; None if it reads none or loses count."""
    try:
        text = io.StringIO(content.decode("utf-8-sig", "replace"), newline="")
        rows = [row for row in csv.reader(text, strict=True) if row]
    except csv.Error:
        return None
    return len(rows) - 1


def read_or_refusal(path, read):
    """The number of records that are read, or the message of the refusal."""
    try:
        return read(path)
    except NoisegateError as error:
        shown = "".join(traceback.format_exception(error))
        return (
            str(error)
            if SECRET not in shown
            else pytest.fail(f"{error!r} quotes a cell")
        )


def cells(path):
    """How many cells a discovery sees in one column."""
    table = RawTable(path)
    partial = table.describe_columns(CSV_FUZZ_KINDS, None, None)
    batches = [
        batch["job"] for batch in table.batches(partial.gaps, partial.missing_values)
    ]
    return sum(len(values) + missing for values, missing in batches)


WAYS = {
    "records": lambda path: sum(map(len, TableSource(path, SCHEMA).batches())),
    "cells": cells,
    "units": lambda path: sum(
        map(
            len,
            TableSource(
                path, SCHEMA, units=UnitLimit(column="note", contributions=10**4)
            ).batches(),
        )
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(35))
def test_a_mutated_file_is_read_whole_or_refused_without_quoting_it(
    seed, way, tmp_path, monkeypatch
):
    draw = random.Random(seed)
    path = tmp_path / "x.csv"
    outcomes = set()
    for _ in range(5):
        content = mutated(draw, valid(draw))
        path.write_bytes(content)
        results = [read_or_refusal(path, WAYS[way])]
        for size in (7, 64) if len(content) < 5000 else (20_000,):
            with monkeypatch.context() as patched:
                patched.setattr(csv_file, "_PIECE_BYTES", size)
                results.append(read_or_refusal(path, WAYS[way]))
        # Which fault of several is told may depend on the pieces.
        assert len(set(results)) == 1 or all(
            isinstance(result, str) for result in results
        ), content
        if isinstance(results[0], int):
            assert results[0] == csv_fuzz_by_python(content), content
        outcomes.add(type(results[0]))
    assert outcomes <= {int, str}


@pytest.mark.parametrize("seed", range(20))
def test_a_valid_file_is_not_refused(seed, tmp_path):
    path = tmp_path / "x.csv"
    content = valid(random.Random(seed))
    path.write_bytes(content)
    assert [read_or_refusal(path, WAYS[way]) for way in ("records", "cells")] == [
        csv_fuzz_by_python(content)
    ] * 2


def test_names_and_cells_of_a_pass_are_read_from_one_opening(tmp_path, monkeypatch):
    """A file that is replaced meanwhile would have its cells under the names of another."""
    path = tmp_path / "a.csv"
    path.write_text("u,v\n1,2\n")
    opened = []

    def open_file(path):
        opened.append(path)
        return io.BytesIO(path.read_bytes())

    monkeypatch.setattr(csv_file, "open_file", open_file)
    (cells,) = CsvFile(path).batches(["v"], 1)
    assert cells["v"].to_pylist() == ["2"]
    assert opened == [path]
