"""The door: what it refuses, in which order it reserves, reads and draws, and what it books (G-09, G-10)."""

import warnings

import numpy as np
import pandas as pd
import pytest
from tests.shared.stated import kinds

from noisegate.errors import (
    BudgetRefusedError,
    DataError,
    LedgerError,
    LedgerWarning,
    OptionError,
)
from noisegate.gate import transaction as door
from noisegate.gate.gate import Gate
from noisegate.gate.sums import Engine
from noisegate.ledger.ledger import Kind, Ledger
from noisegate.privacy.accounting import epsilon as cost
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget, Query, plan_sums
from noisegate.privacy.release import array_hashes, release_arrays
from noisegate.queries.feature_map import Counts
from noisegate.schema import Boolean, Schema
from noisegate.sources.tables.tables import TableSource
from noisegate_papers.methods.dp_merf import DPMERF

SCHEMA = Schema((Boolean(name="ill"), Boolean(name="old")), label="ill")
CAP = 2.0
QUERIES = (
    Query(name="counts", dim=1, columns=2, norm=1.0, share=1.0, nonnegative=True),
)
MAPS = {"counts": Counts()}


def frame(rows=40):
    return pd.DataFrame(
        {
            "ill": [i % 3 == 0 for i in range(rows)],
            "old": [i % 2 == 0 for i in range(rows)],
        }
    )


def gate_of(data=None, **options):
    return Gate(
        frame() if data is None else data,
        **{"schema": SCHEMA, "epsilon": 1.0, **options},
    )


def ask(gate, plan=None, maps=MAPS, **options):
    plan = plan_sums(gate.budget, QUERIES) if plan is None else plan
    return gate.sum(
        plan, maps, **{"method": "test", "public": {"why": "a test"}, **options}
    )


def test_what_leaves_is_the_noisy_sum_and_its_certificate():
    gate = gate_of(epsilon=1000.0)
    release = ask(gate)
    assert release.values["counts"].shape == (1, 2)
    # Noise of less than 0.05 at this epsilon; the values lie within a quarter except once in 1e6 runs.
    assert release.values["counts"][0] == pytest.approx([26, 14], abs=0.25)
    certificate = release.certificate
    assert (certificate.epsilon, certificate.delta, certificate.unit) == (
        1000.0,
        1e-5,
        "record",
    )
    assert certificate.events == plan_sums(gate.budget, QUERIES).events
    assert certificate.hashes == array_hashes(
        release_arrays(release.values, release.noise_std)
    )
    assert certificate.public == {
        "schema": SCHEMA.to_json(),
        "records": None,
        "why": "a test",
    }
    assert certificate.ledger is None and certificate.check() <= 1000.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"delta": 0.5}, "delta=0.5"),
        ({"adjacency": "replace"}, "adjacency='replace'"),
        ({"adjacency": "replace-one"}, "records=N"),
        (
            {"adjacency": "replace-one", "records": 40, "on_error": "skip"},
            "on_error='skip': adjacency",
        ),
        ({"records": 0}, "records=0"),
        ({"records": True}, "records=True"),
        ({"records": 2.0}, "records=2.0"),
        ({"dataset": "clinic"}, "go together"),
        ({"ledger": "some.db"}, "go together"),
        ({"unit": "all records of one patient"}, "unit_column and contributions"),
        ({"unit": ""}, "in one line"),
    ],
)
def test_unusable_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        gate_of(**options)


def test_a_plan_without_noise_is_refused():
    with pytest.raises(OptionError, match="takes a Plan of a NoisySum"):
        ask(gate_of(), plan=QUERIES)


@pytest.mark.parametrize(
    "budget",
    [
        Budget(epsilon=2.0),
        Budget(epsilon=0.5),
        Budget(epsilon=1.0, delta=1e-4),
        Budget(epsilon=1.0, unit="person"),
        Budget(epsilon=1.0, adjacency=Adjacency.REPLACE_ONE),
    ],
)
def test_a_plan_for_another_budget_is_refused(budget, ledger):
    gate = gate_of(ledger=ledger, dataset="clinic")
    with pytest.raises(OptionError, match="calibrated for"):
        ask(gate, plan=plan_sums(budget, QUERIES))
    assert kinds(ledger) == []


def test_a_map_that_mixes_records_is_refused_before_anything_is_spent(ledger):
    class Normalised(Counts):
        def __call__(self, records):
            return super().__call__(records) * np.float32(records.codes.mean())

    with pytest.raises(OptionError, match="neighbours or its position"):
        ask(gate_of(ledger=ledger, dataset="clinic"), maps={"counts": Normalised()})
    assert kinds(ledger) == []


def test_a_gate_that_failed_once_stays_shut(tmp_path):
    gate = gate_of(adjacency="replace-one", records=41)
    with pytest.raises(DataError):
        ask(gate)
    with pytest.raises(OptionError, match="open another gate"):
        ask(gate)


def test_replace_one_needs_the_number_of_records_that_the_data_has():
    with pytest.raises(DataError, match="records=39 was given"):
        ask(gate_of(adjacency="replace-one", records=39))
    assert (
        ask(gate_of(adjacency="replace-one", records=40)).certificate.adjacency
        is Adjacency.REPLACE_ONE
    )


def test_under_add_remove_the_number_is_an_estimate_that_nobody_checks():
    release = ask(gate_of(records=7))
    assert release.certificate.public["records"] == 7


@pytest.fixture
def spied(monkeypatch, ledger):
    """What happens, in order: reserve, read, confirm, draw, commit, void."""
    seen = []

    def watch(owner, name, word, generator=False):
        original = getattr(owner, name)

        def wrapped(*args, **kwargs):
            seen.append(word)
            return original(*args, **kwargs)

        def wrapped_generator(*args, **kwargs):
            for item in original(*args, **kwargs):
                seen.append(word)
                yield item

        monkeypatch.setattr(owner, name, wrapped_generator if generator else wrapped)

    for method in ("reserve", "confirm", "commit", "void"):
        watch(Ledger, method, method)
    watch(TableSource, "batch_readers", "read", generator=True)
    watch(door.noise, "add_noise", "draw")
    return seen


def test_the_cost_is_reserved_before_the_first_record_is_read_and_committed_after_the_noise(
    spied, ledger
):
    release = ask(gate_of(ledger=ledger, dataset="clinic"))
    assert spied == ["reserve", "read", "confirm", "draw", "commit"]
    *_, reserve, _, commit = ledger.history("clinic")
    assert (
        commit.certificate == release.certificate.digest()
        and reserve.events == release.certificate.events
    )
    assert release.certificate.ledger == {
        "dataset": "clinic",
        "reservation": commit.reservation,
    }
    (account,) = ledger.show("clinic")
    assert account.spent == cost(release.certificate.events, 1e-5)
    assert (account.reserved, account.committed, account.voided) == (0, 1, 0)
    with pytest.raises(OptionError, match="committed already"):
        ledger.void(commit.reservation, reason="to ask again")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (pd.DataFrame({"ill": [True, None], "old": [True, False]}), DataError),
        (
            pd.DataFrame({"ill": np.array([], bool), "old": np.array([], bool)}),
            DataError,
        ),
    ],
)
def test_bad_data_voids_the_reservation_and_draws_nothing(data, error, spied, ledger):
    with pytest.raises(error):
        ask(gate_of(data, ledger=ledger, dataset="clinic"))
    assert "draw" not in spied and [word for word in spied if word != "read"] == [
        "reserve",
        "void",
    ]
    assert (
        kinds(ledger) == [Kind.RESERVE, Kind.VOID]
        and ledger.show("clinic")[0].spent == 0.0
    )
    assert (
        ledger.history("clinic")[-1].reason == "stopped by DataError before any release"
    )


@pytest.mark.parametrize("show_values", [True, False])
def test_an_error_quotes_private_values_only_to_whoever_asked(show_values):
    data = pd.DataFrame({"ill": ["yes", "SECRET"], "old": [True, False]})
    with pytest.raises(DataError) as caught:
        ask(gate_of(data, show_values=show_values))
    assert ("SECRET" in str(caught.value)) is show_values


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_an_interruption_while_reading_voids_the_reservation(error, spied, ledger):
    class Interrupted(Engine):
        def sum(self, source, tasks, progress):
            next(source.batch_readers())
            raise error

    with pytest.raises(error):
        ask(gate_of(ledger=ledger, dataset="clinic", engine=Interrupted()))
    assert (
        spied == ["reserve", "read", "void"] and ledger.show("clinic")[0].spent == 0.0
    )


def test_a_wrong_number_of_records_voids_the_reservation(spied, tmp_path):
    other = Ledger(tmp_path / "replace.db")
    other.register("clinic", epsilon=2.0, delta=1e-5, adjacency="replace-one")
    with pytest.raises(DataError):
        ask(
            gate_of(adjacency="replace-one", records=41, ledger=other, dataset="clinic")
        )
    assert spied == ["reserve", "read", "void"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_once_noise_is_drawn_the_cost_stays_spent(error, spied, ledger, monkeypatch):
    def broken(values):
        raise error

    monkeypatch.setattr(door, "array_hashes", broken)
    with pytest.raises(error):
        ask(gate_of(ledger=ledger, dataset="clinic"))
    assert spied == ["reserve", "read", "confirm", "draw"] and kinds(ledger) == [
        Kind.RESERVE,
        Kind.CONFIRM,
    ]
    assert 0.99 < ledger.show("clinic")[0].spent <= 1.0


def test_when_voiding_fails_too_the_first_error_is_told_and_the_cost_stays_spent(
    ledger, monkeypatch
):
    def locked(*_, **__):
        raise LedgerError("locked")

    monkeypatch.setattr(Ledger, "void", locked)
    with pytest.raises(DataError):
        ask(
            gate_of(
                pd.DataFrame({"ill": [None], "old": [True]}),
                ledger=ledger,
                dataset="clinic",
            )
        )
    assert ledger.show("clinic")[0].spent > 0.99


def test_a_run_beyond_the_cap_is_refused_before_a_record_is_read(spied, ledger):
    ask(gate_of(ledger=ledger, dataset="clinic", epsilon=1.9))
    spied.clear()
    with pytest.raises(BudgetRefusedError):
        ask(gate_of(ledger=ledger, dataset="clinic", epsilon=1.0))
    assert spied == ["reserve"]


@pytest.mark.parametrize("error", [LedgerError, OptionError, OSError, RuntimeError])
def test_a_commit_that_fails_leaves_the_cost_spent_and_keeps_what_was_paid_for(
    error, ledger, monkeypatch
):
    def gone(*_, **__):
        raise error("gone")

    monkeypatch.setattr(Ledger, "commit", gone)
    with pytest.warns(LedgerWarning, match="gone"):
        release = ask(gate_of(ledger=ledger, dataset="clinic"))
    assert release.values and kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM]
    assert ledger.show("clinic")[0].spent > 0


def test_one_reservation_pays_for_one_release(ledger):
    gate = gate_of(ledger=ledger, dataset="clinic")
    session = gate.open(plan_sums(gate.budget, QUERIES), method="test", public={})
    session.ask(MAPS)
    reservation = ledger.history("clinic")[-1].reservation
    with pytest.raises(
        OptionError,
        match=r"cannot be given back: its run confirmed it .*row 3.*Its cost stays",
    ):
        ledger.void(reservation, reason="by hand")
    ledger.commit(reservation, certificate="0" * 64)
    with pytest.raises(
        OptionError,
        match=r"not returned: .*committed already.*one reservation pays for one release",
    ):
        session.release()
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM, Kind.COMMIT]


def test_a_release_is_kept_where_warnings_are_errors(ledger, capsys, monkeypatch):
    monkeypatch.setattr(Ledger, "commit", lambda *_, **__: 1 / 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ask(gate_of(ledger=ledger, dataset="clinic")).values
    assert (
        "the release is complete, but the ledger could not be updated"
        in capsys.readouterr().err
    )


def test_opening_a_gate_reads_no_record(spied, ledger, mixed_schema, people):
    gate = Gate(
        people(50), schema=mixed_schema, epsilon=1.0, ledger=ledger, dataset="clinic"
    )
    DPMERF(frequencies=5).plan(gate.schema, gate.budget)
    assert spied == []
