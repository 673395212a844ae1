"""Guarantee G-14 end to end: a unit more or less moves the exact sums by what the certificate states, and no more."""

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, continuous
from tests.shared.stated import ledger_of
from tests.shared.sums import squared

from noisegate.errors import OptionError
from noisegate.gate.gate import Gate
from noisegate.privacy.grid import UNITS
from noisegate.privacy.plan import Query, plan_sums
from noisegate.queries.binning import NumericBins
from noisegate.queries.contingency import Contingency
from noisegate.queries.feature_map import Counts
from noisegate.schema import Schema

UNITS_SCHEMA = Schema(
    (continuous("x", missing=True), boolean("ill")),
    label="ill",
)
TABLES = Contingency(
    bins=(NumericBins((0.25, 0.5), True),),
    coded=(2,),
    tables=((0, 1), (0,), ()),
    weights=(1.0, 0.5, 0.2),
)


def visits(seed=0, rows=200, patients=50):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "patient": random.integers(0, patients, rows),
            "x": random.uniform(-0.2, 1.2, rows),
            "ill": random.uniform(size=rows) < 0.4,
        }
    )
    frame.loc[random.uniform(size=rows) < 0.2, "x"] = np.nan
    return frame


def of_one(rows, patient, seed=5, **values):
    return visits(seed, rows).assign(patient=patient, **values)


def units_opened(frame, engine, contributions=3, **options):
    options = {
        "epsilon": 1.0,
        "unit_column": "patient",
        "contributions": contributions,
        **options,
    }
    gate = Gate(frame, schema=UNITS_SCHEMA, engine=engine, **options)
    questions = (
        Query(
            name="tables",
            dim=TABLES.dim,
            columns=1,
            norm=TABLES.norm,
            share=1.0,
            nonnegative=True,
        ),
        Query(name="counts", dim=1, columns=2, norm=1.0, share=1.0, nonnegative=True),
    )
    return gate, gate.open(plan_sums(gate.budget, questions), method="test", public={})


def sums(frame, showing_engine, contributions=3):
    """The exact sums of both questions, in grid units, asked in two rounds; and the certificate."""
    engine = showing_engine()
    _, session = units_opened(frame, engine, contributions)
    session.ask({"tables": TABLES})
    session.ask({"counts": Counts()})
    first, second = engine.totals
    return {**first.sums, **second.sums}, session.release().certificate


@pytest.mark.parametrize("contributions", [1, 3, 10])
@pytest.mark.parametrize("where", ["first", "last", "between"])
def test_a_unit_more_moves_the_sums_by_at_most_the_stated_sensitivity(
    contributions, where, showing_engine
):
    frame = visits()
    before, certificate = sums(frame, showing_engine, contributions)
    bounds = {event.name: event.sensitivity**2 for event in certificate.events}
    assert set(bounds.values()) == {(contributions * UNITS) ** 2}
    seen = dict.fromkeys(bounds, 0)
    units = [
        of_one(1, 777),
        of_one(2, 777),
        of_one(150, 777),
        of_one(
            40, 777, x=0.3, ill=True
        ),  # all the same: the largest sum that a unit may have
        of_one(40, 777, x=np.nan, ill=False),
    ]
    for unit in units:
        frames = dict(
            first=[unit, frame],
            last=[frame, unit],
            between=[frame[:70], unit[:1], frame[70:], unit[1:]],
        )
        after, _ = sums(pd.concat(frames[where]), showing_engine, contributions)
        for name, bound in bounds.items():
            difference = squared(before[name] - after[name])
            assert 0 < difference <= bound
            seen[name] = max(seen[name], difference)
    assert all(seen[name] > 0.99 * bound for name, bound in bounds.items())


def test_removing_any_unit_moves_the_sums_by_at_most_the_stated_sensitivity(
    showing_engine,
):
    frame = visits(rows=120, patients=9)
    before, certificate = sums(frame, showing_engine, 4)
    for patient in range(9):
        after, _ = sums(frame[frame["patient"] != patient], showing_engine, 4)
        for event in certificate.events:
            assert (
                0
                < squared(before[event.name] - after[event.name])
                <= event.sensitivity**2
            )


@pytest.mark.parametrize("column", ["patient", " patient "])
def test_plan_and_certificate_state_the_unit(column, showing_engine):
    gate, session = units_opened(visits(), showing_engine(), unit_column=column)
    assert gate.budget.unit == "all records of one patient"
    assert gate.budget.contributions == 3
    session.ask({"tables": TABLES, "counts": Counts()})
    certificate = session.release().certificate
    assert certificate.unit == "all records of one patient"
    assert certificate.contributions == 3
    assert certificate.check() <= 1.0


def test_a_release_of_records_cannot_pass_for_one_of_units(tmp_path, showing_engine):
    ledger = ledger_of(
        tmp_path, "visits", epsilon=10.0, unit="all records of one patient"
    )
    with pytest.raises(OptionError, match="is what a run with a unit column says"):
        units_opened(
            visits(),
            showing_engine(),
            None,
            unit_column=None,
            unit="all records of one patient",
            ledger=ledger,
            dataset="visits",
        )
    assert ledger.show("visits")[0].spent == 0


def test_releases_of_units_with_different_limits_add_up(tmp_path, showing_engine):
    ledger = ledger_of(
        tmp_path, "visits", epsilon=10.0, unit="all records of one patient"
    )
    for contributions in (1, 5):
        _, session = units_opened(
            visits(), showing_engine(), contributions, ledger=ledger, dataset="visits"
        )
        session.ask({"tables": TABLES, "counts": Counts()})
        session.release()
    (account,) = ledger.show("visits")
    assert account.committed == 2
    assert 1.0 < account.spent < 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contributions": None}, "go together"),
        ({"unit_column": None}, "go together"),
        ({"unit": "household"}, "give one of the two"),
        ({"contributions": 0}, "from 1 to 1000"),
        (
            {"adjacency": "replace-one", "records": 200},
            "unit_column use adjacency='add-remove'",
        ),
        ({"unit_column": "ill"}, "is described in the schema"),
    ],
)
def test_unusable_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        Gate(
            visits(),
            **{
                "schema": UNITS_SCHEMA,
                "epsilon": 1.0,
                "unit_column": "patient",
                "contributions": 3,
                **options,
            },
        )
