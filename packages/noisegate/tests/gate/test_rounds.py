"""Sessions: each question once, all of them paid before the first record is read, later maps free to follow (G-13)."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, continuous
from tests.shared.stated import kinds

from noisegate.errors import DataError, OptionError
from noisegate.gate.gate import Gate
from noisegate.ledger.ledger import Kind
from noisegate.privacy.accounting import epsilon as cost
from noisegate.privacy.plan import Query, plan_sums
from noisegate.queries.binning import NumericBins
from noisegate.queries.contingency import Contingency
from noisegate.queries.feature_map import Counts
from noisegate.schema import Schema
from noisegate.sources.tables.tables import TableSource

CAP = 1000.0
SCHEMA = Schema(
    (continuous("age", 0.0, 100.0, missing=True), boolean("ill")),
    label="ill",
)


def frame(rows=60):
    return pd.DataFrame(
        {"age": np.arange(rows) % 100.0, "ill": [i % 3 == 0 for i in range(rows)]}
    )


def tables(cuts, *columns):
    return Contingency(
        bins=(NumericBins(cuts, True),),
        coded=(2,),
        tables=columns,
        weights=(1.0,) * len(columns),
    )


FIRST = tables((0.25, 0.5, 0.75), (0,))
LATER = tables((0.3,), (0, 1), ())


def question(name, features, dim=None, **options):
    options = {"share": 1.0, "nonnegative": True, **options}
    return Query(
        name=name, dim=dim or features.dim, columns=1, norm=features.norm, **options
    )


QUERIES = (
    question("bins", FIRST),
    question("pairs", LATER, dim=40, share=3.0, adaptive=True),
)


def opened(data=None, queries=QUERIES, **options):
    gate = Gate(
        frame() if data is None else data,
        **{"schema": SCHEMA, "epsilon": 500.0, **options},
    )
    return gate.open(
        plan_sums(gate.budget, queries), method="test", public={"why": "a test"}
    )


def test_a_later_map_may_follow_from_what_was_released():
    with opened() as session:
        bins = FIRST.counts(session.ask({"bins": FIRST})["bins"])[0]
        assert bins == pytest.approx([25, 25, 10, 0, 0], abs=1.0)
        assert session.open_queries == ("pairs",)
        later = tables((0.25,) if bins[0] > 20 else (0.75,), (0, 1), ())
        answer = session.ask({"pairs": later})["pairs"]
    pairs, records = later.counts(answer)
    assert pairs == pytest.approx(np.array([[16, 9], [24, 11], [0, 0]]), abs=1.0)
    assert records == pytest.approx(60, abs=1.0)
    release = session.release()
    assert release.values["pairs"] is answer
    assert list(release.values) == [
        "bins",
        "pairs",
    ]


def test_the_certificate_states_the_planned_events_and_which_were_adaptive():
    with opened() as session:
        session.ask({"bins": FIRST})
        session.ask({"pairs": LATER})
    certificate = session.release().certificate
    assert [event.coordinates for event in certificate.events] == [5, 40]
    assert certificate.public["adaptive"] == ["pairs"]
    assert certificate.public["why"] == "a test"
    assert certificate.check() <= 500.0


def records():
    (batch,) = TableSource(frame(), SCHEMA).batches()
    return batch


def test_a_question_is_answered_once():
    with opened() as session:
        session.ask({"bins": FIRST})
        with pytest.raises(
            OptionError,
            match=r"\['bins'\] do not match the plan's open queries \['pairs'\]",
        ):
            session.ask({"bins": FIRST})
        session.ask({"pairs": LATER})
        with pytest.raises(OptionError, match="once"):
            session.ask({"pairs": LATER})
    session.release()
    with pytest.raises(OptionError, match="has returned its release"):
        session.release()


@pytest.mark.parametrize(
    "maps", [{}, {"other": FIRST}, {"bins": FIRST, "other": FIRST}]
)
def test_only_questions_of_the_plan_are_answered(maps):
    with opened() as session, pytest.raises(OptionError, match="do not match"):
        session.ask(maps)


def test_nothing_is_handed_out_before_every_question_is_answered():
    with opened() as session:
        session.ask({"bins": FIRST})
        with pytest.raises(OptionError, match=r"\['pairs'\] have not been run"):
            session.release()
    with pytest.raises(OptionError, match="not been run"):
        session.release()


def test_no_question_is_answered_after_the_ledger_refused(ledger):
    session = opened(ledger=ledger, dataset="clinic", unit="another")
    with pytest.raises(OptionError, match="unit='another' differs"):
        session.ask({"bins": FIRST})
    with pytest.raises(OptionError, match="this session has ended"):
        session.ask({"bins": FIRST})
    assert session.open_queries == ("bins", "pairs")


def test_of_two_sessions_of_one_gate_the_first_to_ask_has_the_answer():
    gate = Gate(frame(), schema=SCHEMA, epsilon=500.0)
    sessions = [
        gate.open(plan_sums(gate.budget, QUERIES), method="test", public={})
        for _ in range(2)
    ]
    sessions[1].ask({"bins": FIRST})
    with pytest.raises(OptionError, match="open another gate"):
        sessions[0].ask({"bins": FIRST})
    sessions[1].ask({"pairs": LATER})


def test_of_many_threads_one_gets_each_answer():
    session = opened()
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(session.ask, {"bins": FIRST}) for _ in range(8)]
    errors = [answer.exception() for answer in answers]
    assert sum(error is None for error in errors) == 1
    assert {type(error) for error in errors if error} == {OptionError}


def test_an_adaptive_map_may_be_smaller_than_planned_but_not_larger():
    with opened() as session:
        session.ask({"bins": FIRST})
        larger = tables(tuple(np.linspace(0.01, 0.99, 40).tolist()), (0, 1), ())
        with pytest.raises(
            OptionError,
            match=r"'pairs' was planned as at most 40 x 1, its map and the schema give 85",
        ):
            session.ask({"pairs": larger})
        assert session.ask({"pairs": tables((), (0, 1), ())})["pairs"].shape == (5, 1)


def test_a_map_of_another_size_is_refused_unless_it_is_adaptive():
    with (
        opened() as session,
        pytest.raises(OptionError, match="'bins' was planned as 5 x 1"),
    ):
        session.ask({"bins": tables((0.5,), (0,))})


def test_an_adaptive_map_of_a_larger_norm_is_refused():
    with opened() as session:
        session.ask({"bins": FIRST})
        with pytest.raises(OptionError, match="planned with norm"):
            session.ask({"pairs": tables((0.3,), (0, 1), (), (1,))})


@pytest.mark.parametrize(
    "features",
    [
        Contingency(bins=(), coded=(2,), tables=((0,),), weights=(1.0,)),
        Contingency(
            bins=(NumericBins(()),), coded=(3,), tables=((0, 1),), weights=(1.0,)
        ),
        Contingency(
            bins=(NumericBins(()),), coded=(2, 2), tables=((2,),), weights=(1.0,)
        ),
    ],
)
def test_tables_of_other_columns_than_the_schema_has_are_refused(features):
    with (
        opened(queries=(question("bins", features),)) as session,
        pytest.raises(OptionError, match="the schema has 1 and"),
    ):
        session.ask({"bins": features})


def test_a_map_that_is_refused_spends_nothing_and_another_may_be_asked(ledger):
    with opened(ledger=ledger, dataset="clinic") as session:
        with pytest.raises(OptionError):
            session.ask({"bins": Counts()})
        assert kinds(ledger) == []
        session.ask({"bins": FIRST})


def test_the_whole_plan_is_reserved_before_the_first_record_is_read(
    ledger, monkeypatch
):
    seen = []
    batch_readers = TableSource.batch_readers

    def watched(source):
        seen.append(ledger.show("clinic")[0].spent)
        yield from batch_readers(source)

    monkeypatch.setattr(TableSource, "batch_readers", watched)
    session = opened(ledger=ledger, dataset="clinic")
    session.ask({"bins": FIRST})
    session.ask({"pairs": LATER})
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM]
    release = session.release()
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM, Kind.COMMIT]
    assert seen == [cost(release.certificate.events, 1e-5)] * 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_error_in_a_later_round_leaves_the_whole_cost_spent(
    error, ledger, monkeypatch
):
    def broken(source):
        raise error

    with pytest.raises(error), opened(ledger=ledger, dataset="clinic") as session:
        session.ask({"bins": FIRST})
        monkeypatch.setattr(TableSource, "batch_readers", broken)
        session.ask({"pairs": LATER})
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM]
    assert 499 < ledger.show("clinic")[0].spent <= 500
    with pytest.raises(OptionError, match="has ended"):
        session.ask({"pairs": LATER})


def test_data_that_changes_between_rounds_stops_the_run_and_quotes_no_number(tmp_path):
    path = tmp_path / "people.csv"
    frame(60).to_csv(path, index=False)
    with opened(path) as session:
        session.ask({"bins": FIRST})
        frame(61).to_csv(path, index=False)
        with pytest.raises(
            DataError, match=r"people\.csv: the number of records changed"
        ) as caught:
            session.ask({"pairs": LATER})
    assert "6" not in str(caught.value)
