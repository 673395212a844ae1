"""What OpenDP is handed, what it hands back, and what that is booked as. One run of MST serves most of the tests."""

import math

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("mbi", reason="needs the extra noisegate[marginals]")

from tests.shared.columns import boolean, categorical, continuous
from tests.shared.stated import ledger_of

from noisegate.errors import (
    BudgetRefusedError,
    CalibrationError,
    DataError,
    OptionError,
)
from noisegate.gate.gate import Gate
from noisegate.gate.sessions import marginals
from noisegate.ledger.ledger import Ledger
from noisegate.privacy.marginal_plan import (
    NoisyMarginals,
    marginal_columns,
    marginals_of,
    neighbour_distance,
    plan_marginals,
)
from noisegate.queries.binning import NumericBins
from noisegate.schema import Schema

SCHEMA = Schema(
    columns=(
        continuous("x", missing=True),
        # Nobody is "rare", nobody's y is missing, and no x lies in the third cell: all must be released all the same.
        categorical("c", ("a", "rare", "b")),
        boolean("y", missing=True),
        categorical("same", ("only",)),
    )
)
BINS = (NumericBins((0.25, 0.5, 0.75), nullable=True),)
SIZES = (5, 3, 3, 1)
CELLS = [(0, 0, 0), (0, 0, 1), (1, 2, 1), (3, 2, 0), (4, 0, 1)]
COUNTS = [40, 3, 25, 31, 7]


def people():
    cells = np.repeat(np.array(CELLS), COUNTS, axis=0)
    return pd.DataFrame(
        {
            "x": np.array([0.1, 0.25, 0.6, 1.0, np.nan])[cells[:, 0]],
            "c": np.array(["a", "rare", "b"])[cells[:, 1]],
            "y": pd.array(cells[:, 2] == 1, dtype="boolean"),
            "same": "only",
        }
    )


def exact(columns):
    table = np.zeros([SIZES[column] for column in columns])
    for cell, count in zip(CELLS, COUNTS, strict=True):
        table[tuple((*cell, 0)[column] for column in columns)] += count
    return table.reshape(-1)


def planned(gate, **changes):
    pairs = ((0, 1), (0, 2), (1, 2))
    options = {"iterations": 20}
    settings = {
        "name": "mst",
        "algorithm": "MST",
        "options": options,
        "sizes": SIZES,
        "candidates": pairs,
        **changes,
    }
    return plan_marginals(gate.budget, **settings)


def ask(gate, plan=None, bins=BINS):
    return gate.marginals(
        plan or planned(gate), bins, method="mst", public={"settings": {}}
    )


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    ledger = Ledger(tmp_path_factory.mktemp("book") / "ledger.db")
    for dataset in ("clinic", "other"):
        ledger.register(dataset, epsilon=1000.0, delta=1e-5)
    return ledger


@pytest.fixture(scope="module")
def gate(book):
    return Gate(people(), schema=SCHEMA, epsilon=900.0, ledger=book, dataset="clinic")


@pytest.fixture(scope="module")
def release(gate):
    return ask(gate)


# What is handed out. At ε = 900 the noise is so small that the counts can be compared.


@pytest.mark.slow
def test_noisy_counts_are_those_of_the_public_cells(release):
    assert {tuple(sorted(marginal_columns(name))) for name in release.values} >= {
        (0,),
        (1,),
        (2,),
    }
    for name, values in release.values.items():
        columns = marginal_columns(name)
        assert values.shape == (math.prod(SIZES[column] for column in columns), 1)
        assert values[:, 0] == pytest.approx(
            exact(columns), abs=6 * release.noise_std[name] + 0.5
        )


def test_the_noise_spends_what_measuring_may_spend(release):
    # A count has sensitivity 1, so each costs 1/2σ²; a tenth of the half for pairs was spent on choosing them.
    spent = sum(0.5 / std**2 for std in release.noise_std.values())
    (event,) = release.certificate.events
    assert 0.949 * event.rho < spent < 0.951 * event.rho


def test_the_certificate_holds_and_the_ledger_was_charged(release, book, gate):
    assert release.certificate.check() <= 900.0
    assert release.certificate.events == planned(gate).events
    (account,) = book.show("clinic")
    assert account.spent == pytest.approx(900.0, rel=1e-6)
    assert [entry.kind.value for entry in book.history("clinic")] == [
        "register",
        "reserve",
        "confirm",
        "commit",
    ]


def test_every_record_becomes_its_public_cell(gate):
    codes = marginals._read_cells(gate._source, BINS, None)
    assert codes.tolist() == [
        *np.repeat(np.array(CELLS), COUNTS, axis=0).T.tolist(),
        [0] * sum(COUNTS),
    ]
    frame = marginals._lazy_frame(codes, marginals_of(planned(gate))).collect()
    assert frame.columns == ["0", "1", "2"]
    for column in range(3):
        given = frame[str(column)].fill_null(SIZES[column] - 1).to_list()
        assert given == codes[column].tolist()


UNITS = {"unit_column": "who", "contributions": 3}
SMALL = {
    "sizes": (2, 2),
    "candidates": ((0, 1),),
}  # OpenDP looks for its noise for seconds, for each column


@pytest.mark.parametrize(
    ("options", "distance"),
    [
        ({"adjacency": "replace-one", "records": 106}, 2),
        pytest.param({}, 1, marks=pytest.mark.slow),
        pytest.param(UNITS, 3, marks=pytest.mark.slow),
    ],
)
def test_opendp_finds_the_cost_of_a_neighbour_within_the_plan(options, distance):
    import opendp.prelude as dp

    data = people().assign(who=1) if options is UNITS else people()
    plan = planned(Gate(data, schema=SCHEMA, epsilon=1.0, **options), **SMALL)
    requests = marginals_of(plan)
    measure = marginals._build_measurement(requests, neighbour_distance(plan.budget))
    cost = measure.map([dp.polars.Bound(per_group=distance)])
    assert 0.99 * requests.rho < cost < requests.rho


def test_a_mechanism_that_would_spend_more_is_stopped_before_the_records(
    gate, monkeypatch
):
    monkeypatch.setattr(
        NoisyMarginals, "spendable_rho", property(lambda request: request.rho * 1.01)
    )
    with pytest.raises(CalibrationError, match="OpenDP would spend more"):
        marginals._build_measurement(marginals_of(planned(gate, **SMALL)), 1)


def test_bins_of_another_plan_are_refused(gate):
    with pytest.raises(OptionError, match=r"plan is of columns with .* cells"):
        ask(gate, bins=(NumericBins((0.5,), nullable=True),))


@pytest.mark.parametrize("cap", ["epsilon", "delta"])
def test_a_plan_of_another_budget_is_refused(gate, cap):
    other = Gate(
        people(), schema=SCHEMA, **{"epsilon": 900.0, "delta": 1e-5, cap: 1e-2}
    )
    with pytest.raises(OptionError, match="calibrated for"):
        ask(gate, plan=planned(other))


def test_data_that_does_not_fit_costs_nothing(book):
    broken = people().assign(c="SECRET")
    with pytest.raises(DataError) as caught:
        ask(Gate(broken, schema=SCHEMA, epsilon=900.0, ledger=book, dataset="other"))
    assert "SECRET" not in str(caught.value)
    assert book.history("other")[-1].kind.value == "void"


def test_a_refusal_of_the_ledger_comes_before_the_records(book):
    book.register("small", epsilon=1.0, delta=1e-5)
    broken = people().assign(c="SECRET")
    with pytest.raises(BudgetRefusedError):
        ask(Gate(broken, schema=SCHEMA, epsilon=2.0, ledger=book, dataset="small"))


def test_when_opendp_stops_the_cost_stays_reserved(book, monkeypatch):
    def stop(_):
        raise ValueError("SECRET")

    book.register("stopped", epsilon=1.0, delta=1e-5)
    monkeypatch.setattr(marginals, "_build_measurement", lambda request, distance: stop)
    with pytest.raises(
        DataError, match=r"OpenDP stopped with ValueError.*cost stays reserved"
    ) as caught:
        ask(Gate(people(), schema=SCHEMA, epsilon=1.0, ledger=book, dataset="stopped"))
    assert caught.value.__context__ is None
    assert [entry.kind.value for entry in book.history("stopped")] == [
        "register",
        "reserve",
        "confirm",
    ]
    assert book.show("stopped")[0].spent == pytest.approx(1.0, rel=1e-6)


def test_replace_one_needs_the_exact_number(tmp_path):
    gate = Gate(
        people(),
        schema=SCHEMA,
        epsilon=900.0,
        adjacency="replace-one",
        records=len(people()) + 1,
    )
    with pytest.raises(DataError, match="records=107 was given as public"):
        ask(gate)


def test_no_more_records_are_read_than_the_proof_covers(tmp_path, monkeypatch):
    book = ledger_of(tmp_path, epsilon=1.0)
    gate = Gate(people(), schema=SCHEMA, epsilon=1.0, ledger=book, dataset="clinic")
    monkeypatch.setattr(marginals, "MOST_RECORDS", len(people()) - 1)
    with pytest.raises(DataError, match="more than 105 records"):
        ask(gate)
    assert book.show("clinic")[0].spent == 0
