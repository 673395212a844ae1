"""A newcomer's way: from a clinical table that nobody described to two pages and a folder that verifies.

At most eight commands, and no edit but of bounds that a command asked for.
"""

import json
import shlex
import sys

import numpy as np
import pytest

from noisegate.app.cli.main import run
from noisegate.schema import Schema

WORDS = [
    "felt",
    "better",
    "after",
    "the",
    "second",
    "dose",
    "and",
    "slept",
    "well",
    "though",
    "pain",
    "came",
    "back",
]


def clinic(rows, seed):
    """A table of 36 columns as a clinic exports it, as lines of CSV."""
    draw = np.random.default_rng(seed)
    age = np.clip(draw.normal(58, 16, rows), 18, 97).astype(int)
    sick = draw.random(rows) < 1 / (1 + np.exp(-(age - 60) / 12))
    days = draw.integers(0, 700, rows)
    admitted = np.datetime64("2021-01-04") + days
    columns = {
        "patient_id": [f"P{seed}{index:06}" for index in range(rows)],
        "case no": draw.permutation(900_000)[:rows] + 100_000,
        "admitted": [f"{d.day:02}.{d.month:02}.{d.year}" for d in admitted.tolist()],
        "discharged": admitted + draw.poisson(6, rows),
        "born": np.datetime64("2021-01-01") - age * 365 - draw.integers(0, 365, rows),
        "remarks": [" ".join(draw.choice(WORDS, 9)) for _ in range(rows)],
        "icd10": [
            f"{'ABCEIJKMN'[index % 9]}{number:03}"
            for index, number in enumerate(draw.integers(0, 400, rows))
        ],
        "ward": draw.choice(["007", "012", "101"], rows, p=[0.5, 0.3, 0.2]),
        "sex": draw.choice(["f", "m"], rows),
        "insurance": draw.choice(
            ["public", "private", "other"], rows, p=[0.8, 0.15, 0.05]
        ),
        "age": age,
        "height cm": draw.normal(170, 9, rows).round().astype(int),
        "weight kg": draw.normal(78, 14, rows).round(1),
        "temperature": draw.normal(37.2, 0.6, rows).round(1),
        "sodium": draw.normal(139, 4, rows).round(),
        "potassium": draw.normal(4.2, 0.5, rows).round(2),
        "creatinine": np.exp(draw.normal(0, 0.4, rows)).round(2),
        "pack years": np.where(
            draw.random(rows) < 0.6, 0, draw.gamma(2, 9, rows)
        ).round(1),
        "transfused ml": np.where(
            draw.random(rows) < 0.85, 0, 250 * draw.integers(1, 6, rows)
        ),
        "died": (sick & (draw.random(rows) < 0.35)).astype(int),
        "smallpox": np.zeros(rows, dtype=int),
        "consent": ["yes"] * rows,
        **{
            f"finding {index}": (draw.random(rows) < 0.02 * index + 0.1 * sick).astype(
                int
            )
            for index in range(14)
        },
    }
    assert len(columns) == 36
    for name in ("sodium", "creatinine", "pack years", "insurance", "height cm"):
        columns[name] = np.where(
            draw.random(rows) < 0.07,
            draw.choice(["", "NA"], rows),
            columns[name].astype(str),
        )
    cells = zip(*(map(str, values) for values in columns.values()), strict=True)
    return "".join(f"{','.join(line)}\n" for line in [tuple(columns), *cells])


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISEGATE_LEDGER", str(tmp_path / "ledger.db"))
    for seed, (name, rows) in enumerate(
        {"public": 1500, "private": 10_001, "aside": 1500}.items()
    ):
        (tmp_path / f"{name}.csv").write_text(clinic(rows, seed))
    return tmp_path


@pytest.fixture
def shell(monkeypatch, capsys):
    """Runs a line as it is typed, and counts."""
    typed = []

    def ended(line):
        typed.append(line)
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as stop:
            run()
        printed = capsys.readouterr()
        assert stop.value.code in (0, None), (line, printed.err)
        return printed

    ended.typed = typed
    return ended


def look(shell, desk, test="--test aside.csv"):
    """The last steps, whatever the schema came from; with records that were kept aside there are two pages."""
    shell("noisegate plan --schema schema.toml --epsilon 1 --records 10000")
    shell("noisegate ledger register clinic --epsilon 3")
    shell(
        "noisegate fit private.csv --schema schema.toml --epsilon 1 --dataset clinic --out model"
    )
    shell(f"noisegate report model -o pages {test}")
    output = json.loads(shell("noisegate verify model --json").out)
    assert output["ok"]
    pages = {"public.html", "private.html"} if test else {"public.html"}
    assert {path.name for path in (desk / "pages").iterdir()} == pages
    assert len(shell.typed) <= 8


@pytest.mark.slow
def test_from_a_public_sample(desk, shell):
    shell("noisegate schema init public.csv -o schema.toml --label died")
    schema = Schema.from_toml("schema.toml")
    assert set(schema.ignore) == {"patient_id", "case no", "remarks", "icd10"}
    assert schema.column("ward").levels == ("007", "012", "101")
    assert schema.column("smallpox").lower == 0
    assert schema.column("smallpox").upper == 1
    assert schema.column("potassium").step == 0.01
    assert [column.name for column in schema.columns if column.missing] == [
        *("insurance", "height cm", "sodium", "creatinine", "pack years")
    ]
    look(shell, desk)


def test_from_a_code_book_that_lacks_two_bounds(desk, shell):
    schema = shell(
        "noisegate schema init public.csv -o drafted.toml"
    ) and Schema.from_toml("drafted.toml")
    shell.typed.clear()  # that was to make the code book
    lines = ["Variable;Type;Min;Max;Values"]
    for name in (desk / "public.csv").read_text().splitlines()[0].split(","):
        if name in schema.ignore or name == "admitted":
            lines.append(f"{name};text;;;")
            continue
        column = schema.column(name)
        ends = (
            ";"
            if name in ("age", "potassium") or not column.numeric
            else f"{column.lower};{column.upper}"
        )
        levels = "" if column.numeric else "|".join(map(str, column.levels))
        lines.append(f"{name};{column.kind};{ends};{levels}")
    (desk / "codebook.csv").write_text("\n".join(lines) + "\n")
    printed = shell(
        "noisegate schema init --dictionary codebook.csv -o schema.toml"
    ).err
    assert "for 2 of them: age, potassium" in " ".join(printed.split())
    text = (desk / "schema.toml").read_text()
    for ends in ((18, 100), (1, 10)):
        for key, value in zip(("lower", "upper"), ends, strict=True):
            text = text.replace(f"# {key} = \n", f"{key} = {value}\n", 1)
    (desk / "schema.toml").write_text(text)
    look(shell, desk, test="")
