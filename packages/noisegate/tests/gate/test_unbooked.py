"""Runs without a ledger are counted in a process: the second one on the same records says what both cost."""

import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.shared.columns import boolean, continuous
from tests.shared.stated import ledger_of

from noisegate import Gate, Schema, fit
from noisegate.errors import (
    UnbookedWarning,
    installed,
)
from noisegate.privacy.plan import Query, plan_sums
from noisegate.queries.feature_map import Counts

UNBOOKED_SCHEMA = Schema((continuous("x"), boolean("ill")))
COARSE = Schema((boolean("ill"),), ignore=("x",))


def table(rows=400, seed=0):
    draw = np.random.default_rng(seed)
    return pa.table(
        {"x": draw.uniform(size=rows), "ill": draw.uniform(size=rows) < 0.5}
    )


def run(data, *, schema=UNBOOKED_SCHEMA, **options):
    """The warnings of a run; the plan is that of the gate."""
    gate = Gate(data, **{"schema": schema, "epsilon": 1.0} | options)
    plan = plan_sums(gate.budget, (Query.of("counts", Counts(), columns=1, share=1.0),))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gate.sum(plan, method="counts", public={})
    return [
        str(warning.message)
        for warning in caught
        if warning.category is UnbookedWarning
    ], plan


def test_a_second_run_says_what_both_cost():
    data = table()
    assert run(data)[0] == []
    (message,), _ = run(data, epsilon=2.0)
    assert "2 runs of this process had columns in common" in message
    assert "up to epsilon = 3 at delta = 2e-05" in message
    assert "ledger=" in message
    assert not re.search(r"400|\b0\.\d{5,}", message), (
        "neither the number of records nor a hash is told"
    )


def test_what_is_booked_is_not_counted(tmp_path):
    ledger = ledger_of(tmp_path, "people", epsilon=9.0, delta=1e-4)
    data = table()
    for _ in range(2):
        assert run(data, ledger=ledger, dataset="people")[0] == []
    assert run(data)[0] == []


@pytest.mark.parametrize(
    "again", ["a copy", "another kind", "another schema", "a part", "other records"]
)
def test_runs_on_the_same_columns_are_counted_whatever_the_records_are(again):
    """Records are never compared: whoever may start runs must not learn from a warning who is in a file."""
    data = table()
    assert run(data)[0] == []
    others = {
        "a copy": pa.table(data.to_pydict()),
        "another kind": data.to_pandas(),
        "a part": data.slice(100, 150),
    }
    schema = COARSE if again == "another schema" else UNBOOKED_SCHEMA
    assert len(run(others.get(again, table(seed=1)), schema=schema)[0]) == 1
    other = Schema((boolean("well"),))
    assert run(pa.table({"well": [True, False] * 50}), schema=other)[0] == []


def test_as_an_error_it_stops_the_run_before_anything_is_spent():
    data = table()
    run(data)
    gate = Gate(data, schema=UNBOOKED_SCHEMA, epsilon=1.0)
    plan = plan_sums(gate.budget, (Query.of("counts", Counts(), columns=1, share=1.0),))
    drawn = []
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
        warnings.simplefilter("error", UnbookedWarning)
        patched.setattr(
            "noisegate.privacy.noise.add_noise", lambda *args, **_: drawn.append(args)
        )
        with pytest.raises(UnbookedWarning):
            gate.sum(plan, method="counts", public={})
    assert not drawn


@pytest.mark.skipif(not installed("torch"), reason="gradients are taken with torch")
def test_a_training_that_goes_on_is_no_second_run(tmp_path, monkeypatch):
    def stop(_spent, done):
        raise KeyboardInterrupt

    settings = {
        "method": "dp-llm",
        "records": 400,
        "steps": 5,
        "sampling_probability": 0.1,
        "projection": None,
    }
    data = table()
    schema = Schema(UNBOOKED_SCHEMA.columns, label="ill")
    with monkeypatch.context() as patched:
        patched.setattr("noisegate.app.runs.work._CostSoFar.note_after", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(data, schema=schema, epsilon=1.0, out=tmp_path / "model", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnbookedWarning)
        fit(data, out=tmp_path / "model", resume=True)
