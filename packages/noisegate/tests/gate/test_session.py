"""The state machine that every kind of query runs on: what may follow what, and that nothing else does."""

import copy
import os
import pickle
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from tests.shared.columns import boolean, continuous
from tests.shared.stated import kinds, step_query, summed

from noisegate import Gate, Schema
from noisegate.errors import (
    BudgetRefusedError,
    LedgerError,
    OptionError,
)
from noisegate.gate.discovery.schema_gate import SchemaGate
from noisegate.gate.sessions import marginals
from noisegate.gate.transaction import State
from noisegate.ledger.ledger import Kind, Ledger
from noisegate.privacy import noise
from noisegate.privacy.gradient_plan import plan_steps
from noisegate.privacy.marginal_plan import NoisyMarginals, plan_marginals
from noisegate.privacy.plan import Query, plan_sums
from noisegate.privacy.shard_plan import BatchQuery
from noisegate.queries.binning import NumericBins
from noisegate.queries.feature_map import Counts

CAP = 1.0
SCHEMA = Schema((continuous("x"), boolean("y")), label="y")
PEOPLE = pd.DataFrame({"x": np.linspace(0, 1, 60), "y": [True, False] * 30})
AT = {"w": torch.zeros(1)}

PLANNED = State.PLANNED
RESERVED = State.RESERVED
CONFIRMED = State.CONFIRMED
CLOSED = State.CLOSED
RELEASED = State.RELEASED
VOID = State.VOID
LEGAL = {
    (PLANNED, RESERVED),
    (PLANNED, VOID),
    (RESERVED, CONFIRMED),
    (RESERVED, CLOSED),
    (RESERVED, VOID),
    (CONFIRMED, CLOSED),
    (CONFIRMED, RELEASED),
    (CLOSED, RELEASED),
}


@pytest.mark.parametrize(("one", "other"), [*product(State, State)])
def test_only_what_is_listed_follows(one, other):
    if (one, other) in LEGAL:
        assert one.followed_by(other) is other
    else:
        with pytest.raises(
            OptionError,
            match=r"nothing to release|has ended|has returned its release|reserved once",
        ):
            one.followed_by(other)


class Kinds:
    """One session of each kind of query, with what asks it something and what hands its release out."""

    def __init__(self, ledger=None, **options):
        self.book = {} if ledger is None else {"ledger": ledger, "dataset": "clinic"}
        self.book |= options

    def gate(self):
        return Gate(PEOPLE, schema=SCHEMA, epsilon=1.0, **self.book)

    def sums(self):
        gate = self.gate()
        counts = Query(
            name="counts", dim=1, columns=2, norm=1.0, share=1.0, nonnegative=True
        )
        session = gate.open(plan_sums(gate.budget, (counts,)), method="test", public={})
        return session, lambda: session.ask({"counts": Counts()}), session.release

    def gradients(self, journal=None):
        gate = self.gate()
        plan = plan_steps(gate.budget, step_query(1))

        def loss(parameters, numeric, codes):
            return (parameters["w"] * numeric).sum()

        session = gate.gradients(plan, loss, method="test", public={}, journal=journal)
        return session, lambda: session.step(AT), lambda: session.release(AT)

    def batch(self):
        gate = self.gate()
        plan = plan_steps(
            gate.budget,
            BatchQuery(
                name="b",
                steps=3,
                sampling_probability=0.5,
                clip_norm=1.0,
                parameters={"w": (1,)},
            ),
        )
        session = gate.batch(
            plan,
            lambda at, numeric, codes: {"w": numeric.sum(axis=0)},
            method="test",
            public={},
        )
        return session, lambda: session.step(AT), lambda: session.release(AT)

    def marginals(self):
        pytest.importorskip("mbi", reason="needs the extra noisegate[marginals]")
        gate = self.gate()
        options = {
            "options": {"iterations": 20},
            "sizes": (2, 2),
            "candidates": ((0, 1),),
        }
        plan = plan_marginals(gate.budget, name="mst", algorithm="MST", **options)
        access = gate._grant_access(plan, NoisyMarginals, "test", {})
        session = marginals.MarginalSession(
            access, (NumericBins((0.5,), nullable=False),)
        )
        return session, session.release, session.release

    def discovery(self):
        session = SchemaGate(
            PEOPLE, epsilon=1.0, kinds={"x": "continuous", "y": "boolean"}, **self.book
        )
        return session, session.discover, session.discover


ALL = (
    "sums",
    "gradients",
    "batch",
    pytest.param("marginals", marks=pytest.mark.slow),
    "discovery",
)
IN_ROUNDS = (
    "sums",
    "gradients",
    "batch",
)  # the others are answered and released in one


@pytest.mark.parametrize("kind", ALL)
def test_from_the_plan_to_the_release_every_kind_takes_the_same_way(kind, ledger):
    session, ask, release = getattr(Kinds(ledger), kind)()
    assert session.state == PLANNED
    assert kinds(ledger) == []
    if kind in IN_ROUNDS:
        ask()
        assert session.state == CONFIRMED
        assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM]
    release()
    assert session.state == RELEASED
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM, Kind.COMMIT]
    for again in (ask, release):
        with pytest.raises(OptionError):
            again()
    with session:
        pass
    assert session.state == RELEASED
    assert len(kinds(ledger)) == 3


@pytest.mark.parametrize("kind", ALL)
def test_a_session_that_is_left_before_it_was_asked_costs_nothing_and_answers_nothing(
    kind, ledger
):
    session, ask, release = getattr(Kinds(ledger), kind)()
    with session:
        pass
    assert session.state is VOID
    for late in (ask, release):
        with pytest.raises(OptionError):
            late()
    assert session.state == VOID
    assert kinds(ledger) == []


@pytest.mark.parametrize("kind", IN_ROUNDS)
def test_what_was_answered_is_released_behind_the_block_and_nothing_more_is_asked(kind):
    session, ask, release = getattr(Kinds(), kind)()
    with session:
        ask()
    assert session.state is CLOSED
    with pytest.raises(OptionError):
        ask()
    release()
    assert session.state is RELEASED


@pytest.mark.parametrize("kind", IN_ROUNDS)
def test_what_was_never_asked_is_not_released(kind):
    session, _, release = getattr(Kinds(), kind)()
    with pytest.raises(OptionError, match=r"nothing to release|not been run"):
        release()
    assert session.state is PLANNED


@pytest.mark.parametrize("kind", ALL)
def test_an_error_before_the_noise_gives_the_cost_back_and_ends_it(
    kind, ledger, monkeypatch
):
    session, ask, release = getattr(Kinds(ledger), kind)()
    with monkeypatch.context() as patch:
        patch.setattr(
            Ledger,
            "confirm",
            lambda *_, **__: (_ for _ in ()).throw(LedgerError("locked")),
        )
        with pytest.raises(LedgerError):
            ask()
    assert session.state == VOID
    assert kinds(ledger) == [Kind.RESERVE, Kind.VOID]
    for late in (ask, release):
        with pytest.raises(OptionError):
            late()
    assert kinds(ledger) == [Kind.RESERVE, Kind.VOID]


@pytest.mark.parametrize("kind", ALL)
def test_an_error_from_the_noise_on_gives_nothing_back_and_ends_it(
    kind, ledger, monkeypatch
):
    session, ask, _ = getattr(Kinds(ledger), kind)()
    monkeypatch.setattr(noise, "add_noise", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(marginals, "_run_measurement", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ask()
    assert session.state == CLOSED
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM]
    with pytest.raises(OptionError, match="has ended"):
        ask()


@pytest.mark.parametrize("kind", ALL)
def test_a_refusal_of_the_ledger_ends_it(kind, ledger):
    Kinds(ledger).sums()[1]()
    session, ask, _ = getattr(Kinds(ledger), kind)()
    with pytest.raises(BudgetRefusedError):
        ask()
    assert session.state is VOID
    with pytest.raises(OptionError, match="has ended"):
        ask()


@pytest.mark.parametrize("kind", ALL)
def test_no_state_but_the_asking_ones_reaches_the_noise(kind, monkeypatch):
    """Whatever a kind of query does wrong: noise is drawn between the reservation and the release only."""
    monkeypatch.setattr(
        noise, "add_noise", lambda *_, **__: pytest.fail("noise was drawn")
    )
    for state in (PLANNED, CLOSED, RELEASED, VOID):
        session, *_ = getattr(Kinds(), kind)()
        session._transaction.state = state
        with pytest.raises(OptionError):
            session._transaction.add_noise(
                np.zeros(1, dtype=np.int64), summed(sensitivity=1, noise_std=16.0)
            )


@pytest.mark.parametrize("kind", ALL)
def test_another_process_is_given_nothing_and_pays_nothing(kind, ledger, monkeypatch):
    session, ask, release = getattr(Kinds(ledger), kind)()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "getpid", lambda: -1)
        with pytest.raises(OptionError, match="opened in another process"):
            ask()
        assert session.state == PLANNED
        assert kinds(ledger) == []
    if kind in IN_ROUNDS:
        ask()
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(os, "getpid", lambda: -1)
            for other in (ask, release) if kind != "sums" else (release,):
                with pytest.raises(OptionError, match="opened in another process"):
                    other()
    release()
    assert session.state == RELEASED
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM, Kind.COMMIT]


def test_a_process_that_is_forked_while_records_are_read_draws_no_noise(
    ledger, monkeypatch
):
    _, ask, _ = Kinds(ledger).sums()
    monkeypatch.setattr(
        noise, "add_noise", lambda *_, **__: pytest.fail("noise was drawn")
    )
    reserve = Ledger.reserve

    def forked(*arguments, **options):
        monkeypatch.setattr(os, "getpid", lambda: -1)
        return reserve(*arguments, **options)

    monkeypatch.setattr(Ledger, "reserve", forked)
    with pytest.raises(OptionError, match="opened in another process"):
        ask()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_hands_out_no_second_release(ledger):
    session, ask, release = Kinds(ledger).sums()
    with session, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that other tests left
        ask()
        child = os.fork()
        if not child:
            try:
                release()
            except OptionError as error:
                os._exit(7 if "opened in another process" in str(error) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    release()
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM, Kind.COMMIT]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_answers_once_cannot_be_copied(again):
    session, *_ = Kinds().sums()
    for single in (
        session,
        session._transaction,
        session.hand_over().reservation,
        Kinds().gate(),
    ):
        with pytest.raises(OptionError, match="cannot be copied or pickled"):
            again(single)
