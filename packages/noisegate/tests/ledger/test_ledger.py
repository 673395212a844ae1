"""What each method of the ledger does, and what it says about what it cannot do."""

import math
from datetime import UTC, datetime

import pytest
from tests.shared.stated import sampled

from noisegate.errors import BudgetRefusedError, LedgerError, OptionError
from noisegate.ledger.ledger import Account, Cap, Kind
from noisegate.privacy import accounting
from noisegate.privacy.events import Adjacency, Sampler

DIGEST = "0123456789abcdef" * 4
CAP = {"epsilon": 1.0, "delta": 1e-5}


def reserve(ledger, events, dataset="patients", **options):
    return ledger.reserve(
        dataset, events, **{"adjacency": "add-remove", "purpose": "a test", **options}
    )


def test_a_new_account_is_empty(ledger):
    ledger.register(
        "patients",
        epsilon=2,
        delta=1e-6,
        adjacency=Adjacency.REPLACE_ONE,
        unit="household",
    )
    cap = {
        "epsilon": 2,
        "delta": 1e-6,
        "adjacency": Adjacency.REPLACE_ONE,
        "unit": "household",
    }
    empty = Account(
        dataset="patients",
        **cap,
        spent=0,
        remaining=2,
        reserved=0,
        committed=0,
        voided=0,
    )
    assert ledger.show("patients") == [empty]


def test_registering_twice_is_refused_and_names_the_cap(ledger):
    ledger.register("patients", **CAP)
    with pytest.raises(
        OptionError,
        match=r"'patients' is registered already, with the cap ε = 1 at δ = 1e-05",
    ):
        ledger.register("patients", epsilon=50, delta=1e-5)
    assert ledger.show("patients")[0].epsilon == 1


def test_unknown_data_sets_are_named_with_those_that_are_known(ledger, event):
    ledger.register("patients", **CAP)
    for call in (
        ledger.show,
        ledger.history,
        lambda name: reserve(ledger, [event()], name),
    ):
        with pytest.raises(
            OptionError,
            match=r"dataset='patient' is not registered .*'patients'.*ledger register patient",
        ):
            call("patient")


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5])
def test_one_run_at_exactly_the_cap_fits_and_nothing_after_it(
    ledger, event, epsilon, delta
):
    ledger.register("patients", epsilon=epsilon, delta=delta)
    reserve(ledger, [event(epsilon, delta)])
    (account,) = ledger.show()
    assert epsilon * (1 - 1e-6) < account.spent <= epsilon
    assert account.remaining < 1e-3 * epsilon
    with pytest.raises(BudgetRefusedError):
        reserve(ledger, [event(epsilon, delta, share=1e-4)])


def test_the_cap_itself_may_be_spent(ledger, event):
    cost = accounting.epsilon([event()], 1e-5)
    ledger.register("patients", epsilon=cost, delta=1e-5)
    reserve(ledger, [event()])
    assert ledger.show()[0].spent == cost


def test_one_run_a_hair_above_the_cap_is_refused(ledger, event):
    ledger.register("patients", **CAP)
    with pytest.raises(BudgetRefusedError):
        reserve(ledger, [event(1 + 1e-8)])
    assert ledger.check() == 1


def test_a_refusal_states_the_figures_and_the_cure_and_spends_nothing(ledger, event):
    ledger.register("patients", epsilon=3, delta=1e-6)
    reserve(ledger, [event(1, 1e-6)])
    before = ledger.show()
    with pytest.raises(BudgetRefusedError) as refused:
        reserve(ledger, [event(3, 1e-6)])
    together = accounting.gaussian_epsilon(
        math.hypot(accounting.mu_for(1, 1e-6), accounting.mu_for(3, 1e-6)), 1e-6
    )
    message = str(refused.value)
    assert "'patients'" in message
    assert ledger.location in message
    assert "cap is ε = 3 at δ = 0.000001" in message.replace("1e-06", "0.000001")
    assert "spent so far: ε = 1;" in message
    assert "this run alone: ε = 3;" in message
    assert f"together: ε = {math.ceil(together * 1e4) / 1e4}" in message
    assert "remains for one more run is ε = 2.7708: ask for at most that" in message
    assert refused.value.exit_code == 3
    assert ledger.show() == before
    assert ledger.check() == 2


def test_what_is_said_to_remain_can_be_spent(ledger, event):
    ledger.register("patients", **CAP)
    for epsilon in (0.3, 0.4, 0.01):
        reserve(ledger, [event(epsilon)])
        left = ledger.show()[0].remaining
        with pytest.raises(BudgetRefusedError):
            reserve(ledger, [event(left * 1.0001)])
    reserve(ledger, [event(left)])
    assert 1 - 1e-6 < ledger.show()[0].spent <= 1


def test_costs_are_composed_from_all_events_not_added(ledger, event):
    ledger.register("patients", **CAP)
    runs = [[event(share=0.2), event(share=0.1, name="count")], [event(share=0.5)]]
    for events in runs:
        reserve(ledger, events)
    spent = ledger.show()[0].spent
    assert spent == accounting.epsilon([*runs[0], *runs[1]], 1e-5)
    assert spent < sum(accounting.epsilon(events, 1e-5) for events in runs) - 0.1


def test_sampled_runs_are_composed_and_leave_no_single_remaining_figure(ledger, event):
    ledger.register("patients", **CAP)
    noise = {
        "sensitivity": 100.0,
        "noise_std": 120.0,
        "sampler": Sampler.DISCRETE_GAUSSIAN,
    }
    steps = sampled(rate=0.01, steps=100, coordinates=10, **noise)
    reserve(ledger, [steps, event(0.1)])
    (account,) = ledger.show()
    assert account.spent == accounting.epsilon([steps, event(0.1)], 1e-5)
    assert account.remaining is None
    with pytest.raises(BudgetRefusedError, match="Ask for less"):
        reserve(ledger, [event(1)])
    assert ledger.check() == 2


def test_adjacency_and_unit_must_be_those_of_the_registration(ledger, event):
    ledger.register("patients", **CAP, unit="patient")
    with pytest.raises(
        OptionError, match="adjacency='replace-one' differs from 'add-remove'"
    ):
        reserve(ledger, [event()], adjacency=Adjacency.REPLACE_ONE, unit="patient")
    with pytest.raises(OptionError, match="unit='record' differs from 'patient'"):
        reserve(ledger, [event()])
    assert ledger.check() == 1
    assert reserve(ledger, [event()], unit="patient")


def test_a_committed_run_stays_spent_and_is_final(ledger, event):
    ledger.register("patients", **CAP)
    reservation = reserve(ledger, [event(0.5)])
    before = ledger.show()[0].spent
    ledger.commit(reservation, certificate=DIGEST)
    (account,) = ledger.show()
    assert account.reserved == 0
    assert account.committed == 1
    assert account.voided == 0
    assert account.spent == before
    with pytest.raises(OptionError, match=f"{reservation}' is committed already"):
        ledger.void(reservation, reason="changed my mind")
    with pytest.raises(OptionError, match=f"{reservation}' is committed already"):
        ledger.commit(reservation, certificate=DIGEST)
    assert ledger.check() == 3


def test_a_confirmed_run_can_only_be_committed(ledger, event):
    ledger.register("patients", **CAP)
    reservation = reserve(ledger, [event(0.5)])
    before = ledger.show()[0].spent
    for _ in range(2):  # as an interrupted run does that goes on
        ledger.confirm(reservation)
    (account,) = ledger.show()
    assert account.reserved == 1
    assert account.committed == 0
    assert account.voided == 0
    assert account.spent == before
    with pytest.raises(
        OptionError,
        match=r"cannot be given back: its run confirmed it just before .*\(row 3\)",
    ):
        ledger.void(reservation, reason="looks stale")
    assert ledger.check() == 3
    ledger.commit(reservation, certificate=DIGEST)
    assert [entry.kind for entry in ledger.history("patients")[1:]] == [
        Kind.RESERVE,
        Kind.CONFIRM,
        Kind.COMMIT,
    ]
    assert ledger.check() == 4


@pytest.mark.parametrize("state", ["void", "committed"])
def test_a_run_whose_reservation_was_closed_cannot_confirm_it(ledger, event, state):
    ledger.register("patients", **CAP)
    reservation = reserve(ledger, [event(0.5)])
    if state == "void":
        ledger.void(reservation, reason="looks stale")
    else:
        ledger.commit(reservation, certificate=DIGEST)
    with pytest.raises(
        LedgerError,
        match=f"{reservation} of this run is {state} already, by row 3 of the ledger",
    ) as stop:
        ledger.confirm(reservation)
    assert ledger.location in str(stop.value)
    assert (
        ("nothing is spent" in str(stop.value))
        == (state == "void")
        == ("(looks stale)" in str(stop.value))
    )
    with pytest.raises(OptionError, match="is not in the ledger"):
        ledger.confirm("nothing")
    assert ledger.check() == 3


def test_a_void_run_costs_nothing_and_is_final(ledger, event):
    ledger.register("patients", **CAP)
    reservation = reserve(ledger, [event()])
    ledger.void(reservation, reason="the file could not be opened")
    (account,) = ledger.show()
    assert account.reserved == 0
    assert account.committed == 0
    assert account.voided == 1
    assert account.spent == 0
    for close in (
        lambda: ledger.void(reservation, reason="x"),
        lambda: ledger.commit(reservation, certificate=DIGEST),
    ):
        with pytest.raises(OptionError, match=f"{reservation}' is void already"):
            close()
    assert reserve(ledger, [event()])


def test_history_tells_everything_in_order(ledger, event):
    ledger.register("patients", **CAP)
    ledger.register("other", **CAP)
    events = (event(0.3), event(0.2, name="count"))
    first = reserve(ledger, events, purpose="dp-merf, version 1")
    second = reserve(ledger, [event(0.1)])
    ledger.void(second, reason="out of memory")
    ledger.commit(first, certificate=DIGEST)

    history = ledger.history("patients")
    assert [entry.sequence for entry in history] == [1, 3, 4, 5, 6]
    assert [entry.kind for entry in history] == [
        Kind.REGISTER,
        Kind.RESERVE,
        Kind.RESERVE,
        Kind.VOID,
        Kind.COMMIT,
    ]
    assert [entry.reservation for entry in history] == [
        None,
        first,
        second,
        second,
        first,
    ]
    assert history[0].cap == Cap(**CAP, adjacency=Adjacency.ADD_REMOVE, unit="record")
    assert history[1].events == events
    assert history[1].purpose == "dp-merf, version 1"
    assert history[3].reason == "out of memory"
    assert history[4].certificate == DIGEST
    times = [datetime.fromisoformat(entry.time) for entry in history]
    assert times == sorted(times)
    assert abs((datetime.now(UTC) - times[0]).total_seconds()) < 600
    assert len({entry.hash for entry in history}) == 5
