"""Schemas, discoveries and ledgers of earlier versions are read, and say what they said."""

import json
import re
import shutil
import sqlite3

import pytest

from noisegate.errors import LedgerError

from . import books
from .differences import differences
from .names import FILES, HERE, Certificate, Ledger, Schema, printed, program

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


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
    assert Schema.from_json(golden("schemas")[name]["json"]) == read == Schema.loads(golden("schemas")[name]["toml"])


def test_every_schema_file_is_looked_at():
    assert set(golden("schemas")) == set(books.schemas())


def test_a_discovery_is_verified_as_it_was():
    assert differences(golden("discovery")["discovered"], books.discovered("discovered"), relative=1e-9) == []


def test_an_audit_reports_what_it_reported():
    assert differences(golden("audit")["pairwise"], books.audited("pairwise")) == []


@pytest.mark.parametrize("dataset", books.DATASETS)
def test_a_ledger_says_what_it_said(dataset, ledger):
    assert differences(golden("ledger")[dataset], books.accounts(dataset, ledger), relative=1e-9) == []


def test_a_ledger_goes_on(ledger):
    """Its chain is whole, open reservations can be ended, and what is spent counts."""
    kept = Ledger(ledger)
    rows = kept.check()
    history = [entry for entry in golden("ledger")["clinic"]["history"]["entries"] if entry["reservation"]]
    kinds = {}
    for entry in history:
        kinds.setdefault(entry["reservation"], []).append(entry["kind"])
    assert sorted(kinds.values()) == sorted(
        [["reserve", "confirm", "commit"], ["reserve", "void"], ["reserve", "confirm"], ["reserve"]]
    )
    confirmed = next(name for name, ends in kinds.items() if ends == ["reserve", "confirm"])
    reserved = next(name for name, ends in kinds.items() if ends == ["reserve"])
    kept.commit(confirmed, certificate="ab" * 32)
    kept.void(reserved, reason="golden")
    assert kept.check() == rows + 2
    code, out, err = program(
        *("fit", "plain.csv", "--schema", "plain.toml", "--epsilon", 19, "--dataset", "clinic", "--ledger", ledger),
        *("--out", ledger.parent / "model"),
    )
    assert code == 3, out + err


def test_an_edited_row_of_a_ledger_is_found(ledger):
    with sqlite3.connect(ledger) as file:
        table = next(
            name
            for (name,) in file.execute("select name from sqlite_master where type = 'table'")
            if "payload" in [row[1] for row in file.execute(f"pragma table_info({name})")]
        )
        (payload,) = file.execute(f"select payload from {table} where sequence = 4").fetchone()
        edited = re.sub(r"56091", "56092", payload)
        assert edited != payload
        file.execute(f"update {table} set payload = ? where sequence = 4", (edited,))
    with pytest.raises(LedgerError):
        Ledger(ledger).check()


def test_a_booked_certificate_names_its_reservation(ledger):
    held = Certificate.from_json(json.loads((books.BOOKED / "certificate.json").read_text()))
    assert printed("verify", books.BOOKED)["ok"] and held.ledger["dataset"] == "clinic"
    entries = golden("ledger")["clinic"]["history"]["entries"]
    ends = [entry for entry in entries if entry["reservation"] == held.ledger["reservation"]]
    assert [entry["kind"] for entry in ends] == ["reserve", "confirm", "commit"]
    assert ends[-1]["certificate"] == held.digest()
