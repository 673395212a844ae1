"""Models that earlier versions saved are read, draw what they drew, and their certificates hold."""

import json
import math
import re
import shutil
import sqlite3
from collections.abc import Iterator

import pytest

from noisegate.errors import LedgerError

from . import books, current, models
from .cases import FITS
from .current import settings
from .differences import differences
from .names import (
    FILES,
    HERE,
    METHOD_NAMES,
    Certificate,
    Ledger,
    Schema,
    printed,
    program,
    settings_from_json,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning"
)
SAMPLES = json.loads((HERE / "samples.json").read_text())
CERTIFICATES = json.loads((HERE / "certificates.json").read_text())


def cells(golden, current) -> Iterator[tuple]:
    """Yields the cells of two samples in pairs."""
    if isinstance(golden, dict):
        assert list(golden) == list(current)
        golden = list(golden.values())
        current = list(current.values())
    if isinstance(golden, list):
        assert len(golden) == len(current)
        for pair in zip(golden, current, strict=True):
            yield from cells(*pair)
        return
    yield golden, current


def close(golden, current) -> bool:
    """Whether two cells are equal up to what kernels of another processor may round differently."""
    if type(golden) is not type(current):
        return False
    if isinstance(golden, float):
        return math.isclose(
            golden, current, rel_tol=1e-7 if golden > 1e6 else 1e-4, abs_tol=1e-5
        )
    if isinstance(golden, int) and not isinstance(golden, bool):
        return abs(golden - current) <= 1
    return golden == current


def test_every_fit_has_a_model_and_every_model_a_fit():
    folders = {path.name for path in models.MODELS.iterdir()}
    assert folders == set(FITS) == set(SAMPLES) == set(CERTIFICATES)


@pytest.mark.parametrize("fit", SAMPLES)
def test_a_saved_model_draws_what_it_drew(fit):
    pairs = list(cells(SAMPLES[fit], models.drawn(fit)))
    assert [pair for pair in pairs if not close(*pair)] == []
    # Whole numbers, days and pixels may be rounded to their neighbour, but rarely.
    others = [pair for pair in pairs if isinstance(pair[0], int) and pair[0] != pair[1]]
    assert len(others) <= len(pairs) / 20


@pytest.mark.parametrize("fit", CERTIFICATES)
def test_a_certificate_holds_as_it_did(fit):
    assert differences(CERTIFICATES[fit], models.certified(fit), relative=1e-9) == []


@pytest.mark.parametrize("fit", CERTIFICATES)
def test_a_certificate_gives_back_the_settings(fit):
    held = Certificate.from_json(
        json.loads((models.MODELS / fit / "certificate.json").read_text())
    )
    method, schema, _ = FITS[fit]
    stored = held.public["settings"]
    read = settings_from_json(held.method, stored)
    assert differences(stored, json.loads(json.dumps(read.to_json()))) == []
    # What was asked for, and the digests of the files that were named.
    requested = json.loads(
        json.dumps(settings(f"{method} | {schema} | {fit}").to_json())
    )
    others = {
        difference.partition(":")[0] for difference in differences(stored, requested)
    }
    assert others <= {"/sha256", "/decoder_sha256"}


# Plans and settings of every method are those of the version that wrote the golden files.

PLANS = json.loads((HERE / "plans.json").read_text())
SETTINGS = json.loads((HERE / "settings.json").read_text())


def test_every_method_has_golden_plans_and_settings():
    assert {case.split(" | ")[0] for case in PLANS} == {"auto", *METHOD_NAMES}
    assert {case.split(" | ")[0] for case in SETTINGS} == set(METHOD_NAMES)
    assert {method for method, _, _ in FITS.values()} == set(METHOD_NAMES) - {
        "mepf"
    }  # another name of dp-mepf


def quick_and_slow():
    """Yields the cases of plans: images under other budgets than the first are slow."""
    for case in PLANS:
        _, schema, budget, _ = case.split(" | ")
        yield pytest.param(
            case,
            marks=[pytest.mark.slow]
            if schema == "grey" and budget != current.FIRST
            else [],
        )


@pytest.mark.parametrize("case", list(quick_and_slow()))
def test_a_plan_asks_what_it_always_asked(case):
    assert differences(PLANS[case], current.plan(case), relative=1e-9) == []


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_are_stored_and_read_as_always(case):
    current_settings = current.settings(case)
    golden = SETTINGS[case]
    if golden is None:
        assert current_settings is None
        return
    name = case.split(" | ")[0]
    assert differences(golden, json.loads(json.dumps(current_settings.to_json()))) == []
    # What earlier versions stored is read, and means the same.
    read = settings_from_json(name, golden)
    assert differences(golden, json.loads(json.dumps(read.to_json()))) == []
    assert read == current_settings


# Schemas, discoveries and ledgers of earlier versions are read, and say what they said.


def golden(name):
    return json.loads((HERE / f"{name}.json").read_text())


@pytest.fixture
def ledger(tmp_path):
    """A copy: a ledger is written to by whoever opens it to spend."""
    return shutil.copy(books.LEDGER, tmp_path / "ledger.db")


@pytest.mark.parametrize("name", golden("schemas"))
def test_a_schema_is_read_and_laid_out_as_it_was(name):
    assert differences(golden("schemas")[name], books.schema(name)) == []
    read = Schema.from_toml(FILES / f"{name}.toml")
    assert (
        Schema.from_json(golden("schemas")[name]["json"])
        == read
        == Schema.loads(golden("schemas")[name]["toml"])
    )


def test_every_schema_file_is_looked_at():
    assert set(golden("schemas")) == set(books.schemas())


def test_a_discovery_is_verified_as_it_was():
    assert (
        differences(
            golden("discovery")["discovered"],
            books.discovered("discovered"),
            relative=1e-9,
        )
        == []
    )


def test_an_audit_reports_what_it_reported():
    assert differences(golden("audit")["pairwise"], books.audited("pairwise")) == []


@pytest.mark.parametrize("dataset", books.DATASETS)
def test_a_ledger_says_what_it_said(dataset, ledger):
    assert (
        differences(
            golden("ledger")[dataset], books.accounts(dataset, ledger), relative=1e-9
        )
        == []
    )


def test_a_ledger_goes_on(ledger):
    """Its chain is whole, open reservations can be ended, and what is spent counts."""
    kept = Ledger(ledger)
    rows = kept.check()
    history = [
        entry
        for entry in golden("ledger")["clinic"]["history"]["entries"]
        if entry["reservation"]
    ]
    kinds = {}
    for entry in history:
        kinds.setdefault(entry["reservation"], []).append(entry["kind"])
    assert sorted(kinds.values()) == sorted(
        [
            ["reserve", "confirm", "commit"],
            ["reserve", "void"],
            ["reserve", "confirm"],
            ["reserve"],
        ]
    )
    confirmed = next(
        name for name, ends in kinds.items() if ends == ["reserve", "confirm"]
    )
    reserved = next(name for name, ends in kinds.items() if ends == ["reserve"])
    kept.commit(confirmed, certificate="ab" * 32)
    kept.void(reserved, reason="golden")
    assert kept.check() == rows + 2
    code, out, err = program(
        *(
            "fit",
            "plain.csv",
            "--schema",
            "plain.toml",
            "--epsilon",
            19,
            "--dataset",
            "clinic",
            "--ledger",
            ledger,
        ),
        *("--out", ledger.parent / "model"),
    )
    assert code == 3, out + err


def test_an_edited_row_of_a_ledger_is_found(ledger):
    with sqlite3.connect(ledger) as file:
        table = next(
            name
            for (name,) in file.execute(
                "select name from sqlite_master where type = 'table'"
            )
            if "payload"
            in [row[1] for row in file.execute(f"pragma table_info({name})")]
        )
        (payload,) = file.execute(
            f"select payload from {table} where sequence = 4"
        ).fetchone()
        edited = re.sub(r"56091", "56092", payload)
        assert edited != payload
        file.execute(f"update {table} set payload = ? where sequence = 4", (edited,))
    with pytest.raises(LedgerError):
        Ledger(ledger).check()


def test_a_booked_certificate_names_its_reservation(ledger):
    held = Certificate.from_json(
        json.loads((books.BOOKED / "certificate.json").read_text())
    )
    assert printed("verify", books.BOOKED)["ok"]
    assert held.ledger["dataset"] == "clinic"
    entries = golden("ledger")["clinic"]["history"]["entries"]
    ends = [
        entry for entry in entries if entry["reservation"] == held.ledger["reservation"]
    ]
    assert [entry["kind"] for entry in ends] == ["reserve", "confirm", "commit"]
    assert ends[-1]["certificate"] == held.digest()
