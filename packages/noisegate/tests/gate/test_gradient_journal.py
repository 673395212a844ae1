"""Interrupted runs: a step that was begun is used, the reservation is kept, and nothing is drawn twice."""

import os

import numpy as np
import pandas as pd
import pytest
import torch
from tests.shared.columns import continuous
from tests.shared.stated import kinds, step_query

from noisegate.errors import OptionError
from noisegate.gate import samples
from noisegate.gate.gate import Gate
from noisegate.gate.journal import Journal
from noisegate.ledger.ledger import Kind
from noisegate.privacy import noise
from noisegate.privacy.gradient_plan import plan_steps
from noisegate.privacy.plan import Query
from noisegate.queries.feature_map import Counts
from noisegate.schema import Schema

CAP = 60.0
SCHEMA = Schema((continuous("a"),))
AT = {"w": torch.zeros(2)}


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "run.journal"


def loss(parameters, numeric, codes):
    return (parameters["w"] * numeric).sum()


def opened(journal, *, steps=5, method="test", queries=(), **options):
    gate = Gate(
        pd.DataFrame({"a": np.linspace(0, 1, 40)}),
        schema=SCHEMA,
        epsilon=50.0,
        **options,
    )
    plan = step_query(2, steps=steps, queries=queries)
    return gate.gradients(
        plan_steps(gate.budget, plan), loss, method=method, public={}, journal=journal
    )


def test_a_run_is_resumed_with_the_steps_that_are_left_and_spends_once(ledger, journal):
    with opened(journal, ledger=ledger, dataset="clinic") as session:
        session.step(AT)
        session.step(AT)
    # Twice 50 would be over the cap.
    with opened(journal, ledger=ledger, dataset="clinic") as session:
        assert session.remaining_steps == 3
        for _ in range(3):
            session.step(AT)
        with pytest.raises(OptionError, match="all 5 steps"):
            session.step(AT)
        release = session.release(AT)
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM, Kind.COMMIT]
    assert (
        release.certificate.ledger["reservation"]
        == ledger.history("clinic")[1].reservation
    )
    assert not journal.exists()


def test_a_step_that_was_begun_counts_as_used(journal, monkeypatch):
    with opened(journal) as session:
        session.step(AT)
        with monkeypatch.context() as patch:
            patch.setattr(
                noise,
                "add_noise",
                lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt),
            )
            with pytest.raises(KeyboardInterrupt):
                session.step(AT)
    assert opened(journal).remaining_steps == 3


def test_a_resumed_run_draws_fresh_samples_and_fresh_noise(journal):
    with opened(journal) as session:
        first = session.step(AT)["w"]
    with opened(journal) as session:
        second = session.step(AT)["w"]
    assert not torch.equal(first, second)


def test_two_processes_with_one_journal_share_its_steps(journal):
    first = opened(journal, steps=3)
    first.step(AT)
    second = opened(journal, steps=3)
    second.step(AT)
    first.step(AT)
    with pytest.raises(OptionError, match="another process"):
        second.step(AT)
    assert second.remaining_steps == 0


@pytest.mark.parametrize("resumed", [False, True])
def test_an_error_before_any_noise_gives_the_cost_back_unless_the_run_was_resumed(
    resumed, ledger, journal, monkeypatch
):
    if resumed:
        opened(journal, ledger=ledger, dataset="clinic").step(AT)
    with opened(journal, ledger=ledger, dataset="clinic") as session:
        monkeypatch.setattr(samples, "poisson_sample", lambda records, rate, _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.step(AT)
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM if resumed else Kind.VOID]
    assert journal.exists() is resumed
    if resumed:
        assert opened(journal, ledger=ledger, dataset="clinic").remaining_steps == 3


@pytest.mark.parametrize("where", ["sample", "begin"])
def test_a_run_that_another_process_went_on_with_is_not_given_back(
    where, ledger, journal, monkeypatch
):
    first = opened(journal, ledger=ledger, dataset="clinic")
    if where == "begin":
        # The other one is first: this one's own step is the second.
        begin = Journal.begin_step

        def overtaken(self):
            with monkeypatch.context() as patch:
                patch.setattr(Journal, "begin_step", begin)
                opened(journal, ledger=ledger, dataset="clinic").step(AT)
            return begin(self)

        monkeypatch.setattr(Journal, "begin_step", overtaken)

    original = samples.poisson_sample

    def meanwhile(records, rate, _):
        if where != "begin":
            with monkeypatch.context() as patch:
                patch.setattr(samples, "poisson_sample", original)
                opened(journal, ledger=ledger, dataset="clinic").step(AT)
        raise ZeroDivisionError

    if where == "begin":
        sample = [lambda records, rate, _: np.arange(3), meanwhile]
        monkeypatch.setattr(
            samples,
            "poisson_sample",
            lambda records, rate, _: sample.pop(0)(records, rate, _),
        )
    else:
        monkeypatch.setattr(samples, "poisson_sample", meanwhile)
    with pytest.raises(ZeroDivisionError):
        first.step(AT)
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM]
    assert opened(journal, ledger=ledger, dataset="clinic").remaining_steps == 3


def test_a_step_does_not_begin_in_a_journal_that_was_withdrawn(journal, monkeypatch):
    first = Journal(journal, "run")
    first.create(None)
    second = Journal(journal, "run")
    second.resume()
    assert first.withdraw(0)
    with pytest.raises(FileNotFoundError):
        second.begin_step()
    first.create(None)
    original = os.fsync

    def withdrawn_meanwhile(handle):
        original(handle)
        assert first.withdraw(1)
        first.create(None)

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", withdrawn_meanwhile)
        patch.setattr(first, "create", lambda reservation: journal.write_bytes(b"x"))
        with pytest.raises(OSError, match="replaced"):
            second.begin_step()


def test_a_journal_of_a_closed_reservation_is_refused(ledger, journal):
    with opened(journal, ledger=ledger, dataset="clinic") as session:
        session.step(AT)
    ledger.commit(ledger.history("clinic")[1].reservation, certificate="0" * 64)
    with pytest.raises(OptionError, match="no open reservation"):
        opened(journal, ledger=ledger, dataset="clinic").step(AT)


def test_a_journal_does_not_free_a_run_from_the_ledger(ledger, journal):
    with opened(journal) as session:
        session.step(AT)
    with pytest.raises(OptionError, match="with a ledger, or without"):
        opened(journal, ledger=ledger, dataset="clinic")


@pytest.mark.parametrize("change", [{"steps": 6}, {"method": "other"}, {"delta": 1e-6}])
def test_a_journal_of_another_run_is_refused(journal, change):
    with opened(journal) as session:
        session.step(AT)
    with pytest.raises(OptionError, match="another run"):
        opened(journal, **change)


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"format": 99}\n', b"[1]\n"])
def test_a_file_that_is_no_journal_is_refused(journal, content):
    journal.write_bytes(content)
    with pytest.raises(OptionError, match="journal"):
        opened(journal)
    assert journal.read_bytes() == content


def test_a_journal_that_cannot_be_made_costs_nothing(ledger, tmp_path):
    session = opened(
        tmp_path / "missing" / "run.journal", ledger=ledger, dataset="clinic"
    )
    with pytest.raises(OptionError, match="cannot be made"):
        session.step(AT)
    assert kinds(ledger) == [Kind.RESERVE, Kind.VOID]
    with pytest.raises(OptionError, match="ended"):
        session.step(AT)


def test_a_run_with_questions_has_no_journal(journal):
    question = Query(
        name="counts",
        dim=Counts().dim,
        columns=1,
        norm=1.0,
        share=1.0,
        nonnegative=True,
    )
    with pytest.raises(OptionError, match="cannot be resumed"):
        opened(journal, queries=(question,))


def test_steps_get_numbers_of_their_own(journal):
    first = Journal(journal, "run")
    second = Journal(journal, "run")
    first.create("r")
    assert second.resume()["reservation"] == "r"
    assert [
        first.begin_step(),
        second.begin_step(),
        first.begin_step(),
    ] == [0, 1, 2]
    assert first.begun_step_count() == second.begun_step_count() == 3
