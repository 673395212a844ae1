"""`noisegate schema discover`: what it writes, what it prints, and how it ends when it cannot."""

import errno
import json
import random
import signal
from pathlib import Path

import pytest
from tests.shared.columns import boolean

from noisegate.app.runs.folder import RUN_FILE, Run
from noisegate.gate.discovery import schema_gate as discovery
from noisegate.gate.discovery.schema_gate import discover_schema
from noisegate.ledger.ledger import Ledger
from noisegate.methods.registry import method_named
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.schema_certificate import certificate_path, schema_hash
from noisegate.schema import Schema

from .conftest import argv

CANARY = "CANARY7531"
KINDS = "age=integer,income=continuous,job=categorical,answer=boolean"


@pytest.fixture
def clinic(desk):
    draw = random.Random(1)
    jobs = ["nurse", "teacher", "farmer"]
    lines = [
        f"{draw.randint(18, 90)},{draw.uniform(0, 100):.2f},{draw.choice(jobs)},yes"
        for _ in range(600)
    ]
    desk.write_rows([*lines, f"40,1.0,{CANARY},no"])
    return desk


def discover(desk, *more, kinds=KINDS, epsilon="2", out="found.toml"):
    kinds = ["--kinds", kinds] if kinds else []
    command = argv(f"schema discover {desk.data} --epsilon {epsilon} -o {out}")
    booked = argv(f"--dataset clinic --ledger {desk.ledger}")
    return [*command, *kinds, *booked, *more]


def test_a_schema_and_its_certificate_are_written_and_verified(clinic, cli):
    ended = cli(*discover(clinic, "--label", "job"))
    assert ended.code == 0, ended.err
    assert "(2, 1e-05)-differential privacy" in ended.out.replace("\n", " ")
    assert "Each count gets noise of about ±" in ended.err
    schema = Schema.from_toml("found.toml")
    assert schema.names == ("age", "income", "job", "answer")
    assert schema.label == "job"
    assert schema.column("job").levels == ("farmer", "nurse", "teacher", "other")
    assert (
        CANARY not in ended.out + ended.err + (clinic.folder / "found.toml").read_text()
    )
    assert clinic.account().committed == 1
    checked = cli("verify", "found.toml.certificate.json")
    assert checked.code == 0
    assert "The certificate holds." in checked.out
    assert "found.toml is as it was discovered." in checked.out
    assert cli("schema check found.toml").code == 0


def test_the_price_is_shown_before_a_record_is_read(clinic, cli):
    clinic.write_rows(["no record at all"])
    price = cli(*discover(clinic, "--price", "--json")).json["price"]
    assert price["epsilon"] == 2
    assert price["delta"] == 1e-5
    assert price["adjacency"] == "add-remove"
    assert 0 < price["noise_records"] < price["threshold_records"]
    ended = cli(*discover(clinic, "--price"))
    assert "Bounds and levels for ε = 2" in ended.out
    assert "Each count gets noise of about ±" in ended.out
    assert clinic.account().spent == 0
    assert not (clinic.folder / "found.toml").exists()


def test_a_corrected_schema_is_told_apart_and_a_false_certificate_refused(clinic, cli):
    cli(*discover(clinic))
    path = clinic.folder / "found.toml"
    path.write_text(
        path.read_text().replace("[columns.age]", "# corrected\n[columns.age]")
    )
    assert "was changed since" in cli("verify", "found.toml.certificate.json").out
    proof = certificate_path(path)
    stated = json.loads(proof.read_text())
    stated["events"][-1]["threshold"] //= 2
    proof.write_text(json.dumps(stated))
    ended = cli("verify", proof)
    assert ended.code == 2
    assert "do not rely on it" in ended.err


@pytest.mark.parametrize(
    ("more", "kinds", "message"),
    [
        (
            [],
            KINDS.replace("job=categorical", "job=integer"),
            "column 'job': expected a whole number",
        ),
        (
            ["--adjacency", "replace-one"],
            KINDS,
            "takes the number of records as public",
        ),
        (["-o", "nowhere/found.toml"], KINDS, "nowhere/found.toml cannot be written"),
        (
            ["--unit", "all records of one patient"],
            KINDS,
            "in a run, or say what a record stands for",
        ),
    ],
)
def test_bad_requests_spend_nothing_and_leave_nothing(
    clinic, cli, more, kinds, message
):
    before = clinic.listing()
    ended = cli(*discover(clinic, *more, kinds=kinds))
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
    assert CANARY not in ended.out + ended.err
    assert clinic.account().spent == 0
    assert clinic.listing() == before


@pytest.mark.parametrize("lost", ["write_bytes", "rename"])
def test_what_was_paid_for_is_printed_when_it_cannot_be_written(
    lost, clinic, cli, monkeypatch
):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, lost, full)
    ended = cli(*discover(clinic))
    assert ended.code == 2
    assert clinic.account().committed == 1
    assert "Keep the output below" in " ".join(ended.err.split())
    toml, proof = ended.out.split("# found.toml.certificate.json\n")
    schema = Schema.loads(toml.removeprefix("# found.toml\n"), origin="printed")
    assert schema.names == ("age", "income", "job", "answer")
    assert json.loads(proof)["hashes"]["schema"] == schema_hash(
        toml.removeprefix("# found.toml\n")[:-1].encode()
    )
    assert not list(clinic.folder.glob("*found*"))


@pytest.mark.parametrize("name", ["found.toml", "found.toml.certificate.json"])
def test_a_file_that_is_there_is_replaced_only_when_told_to(clinic, cli, name):
    (clinic.folder / name).write_text("mine")
    ended = cli(*discover(clinic))
    assert ended.code == 2
    assert clinic.account().spent == 0
    assert "exists" in ended.err
    assert (clinic.folder / name).read_text() == "mine"
    assert cli(*discover(clinic, "--force")).code == 0
    assert (clinic.folder / name).read_text() != "mine"


def test_a_discovery_that_shows_nothing_is_not_done(clinic, cli):
    clinic.write_rows([f"{i},{i},{'x' * i},no" for i in range(40)])
    ended = cli(
        *discover(
            clinic, kinds="age=ignore,income=ignore,job=categorical,answer=ignore"
        )
    )
    assert ended.code == 2
    assert clinic.account().committed == 1
    assert "was spent, and no column could be distinguished from the noise" in " ".join(
        ended.err.split()
    )
    assert "job" in (clinic.folder / "found.toml").read_text()
    assert cli("verify", "found.toml.certificate.json").code == 0


def test_a_signal_while_reading_spends_nothing_and_one_after_the_noise_waits(
    clinic, cli, monkeypatch
):
    before = clinic.listing()
    read = discovery.read_counts
    monkeypatch.setattr(
        discovery,
        "read_counts",
        lambda *a: signal.raise_signal(signal.SIGTERM) or read(*a),
    )
    ended = cli(*discover(clinic))
    assert ended.code == 130
    assert "stopped" in ended.err
    account = clinic.account()
    assert account.voided == 1
    assert account.reserved == 0
    assert account.spent == 0
    assert clinic.listing() == before
    monkeypatch.setattr(discovery, "read_counts", read)
    confirm = Ledger.confirm
    monkeypatch.setattr(
        Ledger,
        "confirm",
        lambda *a, **o: confirm(*a, **o) or signal.raise_signal(signal.SIGTERM),
    )
    assert cli(*discover(clinic)).code == 0
    assert clinic.account().committed == 1
    assert cli("verify", "found.toml.certificate.json").code == 0


def test_a_training_that_is_resumed_keeps_what_its_schema_cost(clinic, tmp_path):
    certificate = json.loads(
        json.dumps(
            discover_schema(
                clinic.data, epsilon=2.0, kinds=kinds_of()
            ).certificate.to_json()
        )
    )
    schema = Schema((boolean("answer"),))
    plain = {"delta": 1e-5, "adjacency": "add-remove", "records": 600, "unit": "record"}
    none = {"unit_column": None, "contributions": None, "dataset": None, "ledger": None}
    run = Run(
        method=method_named("dp-gan")(),
        schema=schema,
        epsilon=1.0,
        discovery=Certificate.from_json(certificate),
        **plain,
        **none,
    )
    run.write(tmp_path)
    assert Run.read(tmp_path).discovery.to_json() == certificate
    stored = json.loads((tmp_path / RUN_FILE).read_text())
    del stored["discovery"]  # as earlier versions wrote it
    (tmp_path / RUN_FILE).write_text(json.dumps(stored))
    assert Run.read(tmp_path).discovery is None


def kinds_of():
    return dict(pair.split("=") for pair in KINDS.split(","))
