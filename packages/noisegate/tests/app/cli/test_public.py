"""Methods that weigh public records: --public, what is refused, and what the report says."""

import json

import pytest

from noisegate.gate.session import Session

from .conftest import HEADER, argv, rows, said

DRE = argv("--method dp-dre --records 200")
DRE += [
    part
    for setting in ("steps=4", "sampling_probability=0.25", "dimensions=4", "batch=32")
    for part in ("--set", setting)
]


def command(desk, public, *more):
    base = [
        *argv(f"fit {desk.data} --schema {desk.schema} --epsilon 2 --out {desk.out}"),
        *DRE,
        "--public",
        public,
    ]
    return [*base, *argv(f"--dataset clinic --ledger {desk.ledger}"), *more]


@pytest.fixture
def public(desk):
    path = desk.folder / "public.csv"
    path.write_text("\n".join([HEADER, *rows(300, seed=1)]) + "\n")
    return path


def test_a_training_goes_on_with_the_public_records_that_it_began_with(
    desk, cli, public, monkeypatch
):
    original = Session.step

    def stopped(session, parameters):
        if session.remaining_steps == 2:
            raise KeyboardInterrupt
        return original(session, parameters)

    with monkeypatch.context() as patched:
        patched.setattr(Session, "step", stopped)
        assert cli(*command(desk, public)).code != 0
    ended_with_other = cli(
        f"fit --resume {desk.data} --out {desk.out} --public other.csv"
    )
    assert ended_with_other.code == 2
    assert "the run began with" in said(ended_with_other.err)
    ended = cli(f"fit --resume {desk.data} --out {desk.out} --ledger {desk.ledger}")
    assert ended.code == 0, ended.err
    assert json.loads((desk.out / "certificate.json").read_text())["method"] == "dp-dre"
