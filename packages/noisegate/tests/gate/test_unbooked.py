"""Runs without a ledger are counted in a process: the second one on the same records says what both cost."""

import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.shared.stated import ledger_of

from noisegate import Gate, Schema, fit
from noisegate.errors import UnbookedWarning, installed
from noisegate.features.feature_map import Counts
from noisegate.gate import unbooked
from noisegate.privacy import accounting
from noisegate.privacy.plan import Plan, Query
from noisegate.schema import Boolean, Continuous

SCHEMA = Schema((Continuous(name="x", lower=0.0, upper=1.0), Boolean(name="ill")))
COARSE = Schema((Boolean(name="ill"),), ignore=("x",))


def table(rows=400, seed=0):
    draw = np.random.default_rng(seed)
    return pa.table({"x": draw.uniform(size=rows), "ill": draw.uniform(size=rows) < 0.5})


def run(data, *, schema=SCHEMA, **options):
    """The warnings of a run; the plan is that of the gate."""
    gate = Gate(data, **{"schema": schema, "epsilon": 1.0} | options)
    plan = Plan(queries=(Query.of("counts", Counts(), columns=1, share=1.0),)).calibrate(gate.budget)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gate.sum(plan, method="counts", public={})
    return [str(one.message) for one in caught if one.category is UnbookedWarning], plan


def test_a_second_run_says_what_both_cost():
    data = table()
    assert run(data)[0] == []
    (said,), plan = run(data, epsilon=2.0)
    first = Plan(queries=(Query.of("counts", Counts(), columns=1, share=1.0),)).calibrate(
        Gate(data, schema=SCHEMA, epsilon=1.0).budget
    )
    both = accounting.epsilon((*first.events, *plan.events), 1e-5, plan.budget.adjacency)
    assert "2 runs of this process were on the same private records" in said
    assert f"up to epsilon = {both:.4g} at delta = 1e-05" in said and "ledger=" in said
    assert not re.search(r"400|\b0\.\d{5,}", said), "neither the number of records nor a hash is told"


def test_what_is_booked_is_not_counted(tmp_path):
    ledger = ledger_of(tmp_path, "people", epsilon=9.0, delta=1e-4)
    data = table()
    for _ in range(2):
        assert run(data, ledger=ledger, dataset="people")[0] == []
    assert run(data)[0] == []


def test_other_data_are_not_the_same():
    assert run(table(seed=0))[0] == [] and run(table(seed=1))[0] == [] and run(table(seed=2, rows=17))[0] == []


def test_few_levels_in_common_are_no_records_in_common():
    draw = np.random.default_rng(3)
    for rows in (300, 310):
        assert run(pa.table({"ill": draw.uniform(size=rows) < 0.3}), schema=COARSE)[0] == []


@pytest.mark.parametrize("again", ["a copy", "another order", "another kind", "another schema", "a part"])
def test_the_same_records_are_found_in_another_guise(again):
    data = table()
    assert run(data)[0] == []
    other = {
        "a copy": pa.table(data.to_pydict()),
        "another order": data.take(pa.array(np.random.default_rng(1).permutation(400))),
        "another kind": data.to_pandas(),
        "another schema": data,
        "a part": data.slice(100, 150),
    }[again]
    assert len(run(other, schema=COARSE if again == "another schema" else SCHEMA)[0]) == 1


def test_a_made_up_record_is_not_told_to_be_in_a_file(tmp_path):
    """Whoever may start runs on a file, and not read it, must not learn who is in it from a warning."""
    data = table()
    pyarrow.csv.write_csv(data, tmp_path / "people.csv")
    for guess in (data.slice(7, 1), data):
        assert run(guess)[0] == [] and run(tmp_path / "people.csv")[0] == []
        unbooked._RUNS.clear()


def test_as_an_error_it_stops_the_run_before_anything_is_spent():
    data = table()
    run(data)
    gate = Gate(data, schema=SCHEMA, epsilon=1.0)
    plan = Plan(queries=(Query.of("counts", Counts(), columns=1, share=1.0),)).calibrate(gate.budget)
    drawn = []
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
        warnings.simplefilter("error", UnbookedWarning)
        patched.setattr("noisegate.privacy.noise.add_noise", lambda *args, **_: drawn.append(args))
        with pytest.raises(UnbookedWarning):
            gate.sum(plan, method="counts", public={})
    assert not drawn


@pytest.mark.skipif(not installed("torch"), reason="gradients are taken with torch")
def test_a_training_that_goes_on_is_no_second_run(tmp_path, monkeypatch):
    def stop(_spent, done):
        raise KeyboardInterrupt

    settings = {"method": "dp-llm", "records": 400, "steps": 5, "sampling_probability": 0.1, "projection": None}
    data, schema = table(), Schema(SCHEMA.columns, label="ill")
    with monkeypatch.context() as patched:
        patched.setattr("noisegate.runs.work._Spent.after", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(data, schema=schema, epsilon=1.0, out=tmp_path / "model", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnbookedWarning)
        fit(data, out=tmp_path / "model", resume=True)
