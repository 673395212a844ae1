"""Linked tables: what is asked, what is fitted, and that children follow each other as they do in the records."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.shared.columns import boolean, categorical, integer

from noisegate import Budget, Gate, Schema, load, verify
from noisegate.errors import MissingExtraError, ModelError, OptionError, SchemaError
from noisegate.methods.linked import Linked
from noisegate.methods.registry import make_for
from noisegate.models.linked.model import LinkedModel
from noisegate.models.rejection import RejectionError
from noisegate.schema.constraints import Comparison, Impossible
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate.seeds import public_random
from noisegate.sources.linked import LinkedSource

PATIENTS = LinkedTable(
    name="patients",
    key="id",
    schema=Schema([boolean("chronic"), integer("entered", 0, 100)]),
)
VISITS = LinkedTable(
    name="visits",
    parent="patients",
    key="visit",
    order="day",
    since="entered",
    longest_gap=30,
    most=6,
    schema=Schema(
        [
            integer("day", 0, 400),
            categorical("ward", ("north", "south", "west"), missing=True),
            integer("pain", 0, 40),
        ]
    ),
)
CODES = LinkedTable(
    name="codes", parent="visits", most=3, schema=Schema([boolean("urgent")])
)
SCHEMA = LinkedSchema(
    (PATIENTS, VISITS, CODES),
    constraints=(
        Comparison(left="visits.day", relation=">=", right="patients.entered"),
    ),
)


def clinic(patients, seed=0):
    """Wards stay, pain drifts, the chronic come more often; painful visits have codes."""
    random = np.random.default_rng(seed)
    chronic = random.uniform(size=patients) < 0.4
    entered = random.integers(0, 101, patients)
    numbers = np.where(
        chronic, random.integers(2, 7, patients), random.integers(0, 3, patients)
    )
    rows = {"id": [], "visit": [], "day": [], "ward": [], "pain": []}
    for patient in range(patients):
        day = int(entered[patient])
        ward = random.choice(["north", "south", "west"])
        pain = random.integers(0, 41)
        for _ in range(numbers[patient]):
            day += int(random.integers(1, 20))
            ward = (
                ward
                if random.uniform() < 0.9
                else random.choice(["north", "south", "west"])
            )
            pain = int(np.clip(pain + random.integers(-2, 3), 0, 40))
            shown = None if random.uniform() < 0.1 else ward
            for name, value in zip(
                rows, (patient, len(rows["id"]), day, shown, pain), strict=True
            ):
                rows[name].append(value)
    codes = np.repeat(np.arange(len(rows["pain"])), np.array(rows["pain"]) // 20)
    return {
        "patients": pa.table(
            {"id": np.arange(patients), "chronic": chronic, "entered": entered}
        ),
        "visits": pa.table(rows),
        "codes": pa.table(
            {"visit": codes, "urgent": np.array(rows["pain"])[codes] > 30}
        ),
    }


DATA = clinic(2000)
SETTINGS = {"fit_options": {"components": 40, "steps": 200}}


@pytest.fixture(scope="module")
def model():
    return Linked(**SETTINGS).fit(Gate(DATA, schema=SCHEMA, epsilon=1000.0))


@pytest.fixture(scope="module")
def tables(model):
    return model.sample(3000, seed=1)


def counts(parents, children, key):
    child_counts = np.bincount(
        np.searchsorted(parents[key].to_numpy(), children[key].to_numpy()),
        minlength=len(parents),
    )
    return np.bincount(child_counts, minlength=10)[:10] / len(parents)


def consecutive(visits):
    """The places of visits and of the next ones of the same patient; they stand in their order."""
    ids = visits["id"].to_numpy()
    return np.flatnonzero(ids[1:] == ids[:-1])


def test_keys_are_fresh_and_whole_and_days_never_go_back(tables):
    patients, visits, codes = (tables[name] for name in SCHEMA.names)
    assert patients["id"].to_pylist() == list(range(1, 3001))
    assert visits["visit"].to_pylist() == list(range(1, len(visits) + 1))
    assert set(visits["id"].to_pylist()) <= set(patients["id"].to_pylist())
    assert set(codes["visit"].to_pylist()) <= set(visits["visit"].to_pylist())
    after = consecutive(visits)
    days = visits["day"].to_numpy()
    assert (days[after + 1] >= days[after]).all()
    entered = patients["entered"].to_numpy()[visits["id"].to_numpy() - 1]
    assert (days >= entered).all()


def test_numbers_of_children_are_those_of_the_records(tables):
    for parent, child, key in (
        ("patients", "visits", "id"),
        ("visits", "codes", "visit"),
    ):
        synthetic, real = (
            counts(data[parent], data[child], key) for data in (tables, DATA)
        )
        assert np.abs(synthetic - real).sum() / 2 < 0.04, child


def test_parents_say_how_many_children_there_are_and_children_follow_each_other(tables):
    shares = {}
    for name, data in (("made", tables), ("real", DATA)):
        visits = data["visits"]
        after = consecutive(visits)
        wards = np.array(visits["ward"].to_pylist(), dtype=object)
        pain = visits["pain"].to_numpy()
        is_known = (wards[after] != None) & (wards[after + 1] != None)  # noqa: E711 - of an array of objects
        chronic = data["patients"]["chronic"].to_numpy(zero_copy_only=False)
        start = data["patients"]["id"].to_numpy()[0]
        shares[name] = np.array(
            [
                (wards[after] == wards[after + 1])[is_known].mean(),
                np.corrcoef(pain[after], pain[after + 1])[0, 1],
                chronic[visits["id"].to_numpy() - start].mean(),
                visits["ward"].null_count / len(visits),
                np.diff(visits["day"].to_numpy())[after].mean() / 20,
            ]
        )
    # Children drawn by themselves agree on the ward in a third of the cases, and are uncorrelated.
    assert np.abs(shares["made"] - shares["real"]).max() < 0.08, shares


def test_a_model_is_saved_whole_and_draws_the_same_again(model, tmp_path):
    folder = model.save(tmp_path / "model")
    loaded = load(folder)
    assert isinstance(loaded, LinkedModel)
    assert loaded.certificate.unit.startswith("one record of the table patients")
    assert loaded.sample(50, seed=3) == model.sample(50, seed=3)
    assert verify(folder).recomputed_epsilon <= 1000.0
    assert model.sample(0)["visits"].num_rows == 0
    with pytest.raises(ModelError, match="linked tables"):
        _ = loaded.release.schema


def test_a_sample_in_parts_is_the_sample(model):
    parts = list(model.batches(5000, seed=2))
    assert len(parts) > 1
    whole = model.sample(5000, seed=2)
    for name in SCHEMA.names:
        assert pa.concat_tables([part[name] for part in parts]) == whole[name]
    assert pc.count_distinct(whole["visits"]["visit"]).as_py() == len(whole["visits"])


def test_parents_that_are_asked_for_have_the_children_of_such_parents(model):
    synthetic = {
        ill: model.sample(1000, seed=3, where={"chronic": ill, "entered": (20, 60)})
        for ill in (True, False)
    }
    for ill, tables in synthetic.items():
        people = tables["patients"]
        assert set(people["chronic"].to_pylist()) == {ill}
        assert pc.min(people["entered"]).as_py() >= 20
        assert pc.max(people["entered"]).as_py() <= 60
    assert len(synthetic[True]["visits"]) > 2 * len(synthetic[False]["visits"])
    with pytest.raises(OptionError, match="where: "):
        model.sample(5, where={"pain": 3})
    with pytest.raises(OptionError, match="must map names of columns"):
        model.batches(5, where="chronic")


def test_a_rule_that_no_family_keeps_leaves_children_out_and_one_that_no_parent_keeps_is_refused(
    model,
):
    rule = Comparison(left="visits.pain", relation=">", right="patients.entered")
    strict = replace(model.links[0], link=replace(SCHEMA.links[0], constraints=(rule,)))
    parents = strict.sample_roots(200, public_random(0))
    families, left_out = strict.sample_children(parents, public_random(0))
    assert families.child_counts.sum() == len(families.children) > 0
    assert left_out > 0
    pain = families.children.numeric[:, 1] * 40
    entered = np.repeat(parents.numeric[:, 0], families.child_counts) * 100
    assert (pain > entered).all()
    loose = replace(model, links=(strict, *model.links[1:]))
    with pytest.warns(
        UserWarning, match=r"31 draws of their family: [\d,]+ records of 'visits'"
    ):
        loose.sample(50, seed=0)
    judged = loose.with_verdict_of_rules().summary.verdict
    assert judged.word != "good"
    assert "visits.pain > patients.entered" in judged.reasons[-1]


def test_a_rule_that_few_roots_keep_is_refused_by_a_sample_and_does_not_stop_a_fit(
    model, monkeypatch
):
    monkeypatch.setattr("noisegate.models.rejection.BASE_CANDIDATES", 0)
    monkeypatch.setattr("noisegate.models.rejection.CANDIDATES_PER_RECORD", 2)
    table = replace(
        PATIENTS,
        schema=replace(
            PATIENTS.schema, constraints=(Impossible(values={"entered": "1.."}),)
        ),
    )
    strict = replace(model.links[0], link=replace(SCHEMA.links[0], parent=table))
    with pytest.raises(
        RejectionError,
        match=r"the constraints of table 'patients': of 1,000 cand.*'impossible: entered",
    ):
        strict.sample_roots(500, public_random(0))
    parents, tally = strict.sample_roots_within(50, public_random(0))
    assert tally.drawn == 1000
    assert len(parents) < 50
    assert len(strict.sample_one_child_each(50, public_random(0))) <= len(parents)
    assert strict.verdict_of_roots(public_random(0)).word in ("rough", "noise")


def test_what_is_asked_does_not_grow_with_the_largest_number_of_children():
    budget = Budget(epsilon=1.0)
    few, many = (
        Linked().plan(
            LinkedSchema((PATIENTS, replace(VISITS, most=most), CODES)), budget
        )
        for most in (6, 60)
    )
    for one, other in zip(few.releases, many.releases, strict=True):
        assert one.sensitivity == other.sensitivity
        assert one.noise_std == other.noise_std
    assert few.budget.contributions is None
    assert math.isclose(few.epsilon, 1.0, rel_tol=1e-6)


def test_auto_takes_it_for_linked_tables_and_other_methods_refuse_these():
    assert make_for("auto", SCHEMA, {}) == Linked()
    with pytest.raises(OptionError, match=r"'pairwise'.*linked tables"):
        make_for("pairwise", SCHEMA, {})
    with pytest.raises(OptionError, match=r"'linked'.*one table"):
        make_for("linked", PATIENTS.schema, {})


def test_a_run_of_few_patients_at_a_small_epsilon_ends_and_samples():
    small = clinic(40, seed=5)
    small["codes"] = small["codes"].slice(0, 0)
    tables = (
        Linked(**SETTINGS)
        .fit(Gate(small, schema=SCHEMA, epsilon=0.5))
        .sample(30, seed=0)
    )
    assert tables["patients"].num_rows == 30
    assert set(tables) == set(SCHEMA.names)


def test_dates_do_not_pile_up_at_the_upper_bound(monkeypatch):
    """Eight gaps of 10 to 30 days that fill 150 days, drawn one by one, would often last longer."""
    random = np.random.default_rng(0)
    steps = random.integers(10, 31, (12_000, 8)).cumsum(axis=1)
    days = steps[steps[:, -1] < 150]
    patients = LinkedTable(
        name="patients", key="id", schema=Schema([boolean("chronic")])
    )
    columns = [integer("day", 0, 150), boolean("pain")]
    visits = LinkedTable(
        name="visits",
        parent="patients",
        order="day",
        longest_gap=40,
        most=8,
        schema=Schema(columns),
    )
    keys = np.arange(len(days))
    pain = np.tile([True, False], 4 * len(keys))
    data = {
        "patients": pa.table({"id": keys, "chronic": keys % 2 == 0}),
        "visits": pa.table(
            {"id": np.repeat(keys, 8), "day": days.ravel(), "pain": pain}
        ),
    }
    gate = Gate(data, schema=LinkedSchema((patients, visits)), epsilon=20.0)
    model = Linked(fit_options={"steps": 100}).fit(gate)

    def drawn():
        """Returns the shares of gaps that are 0 and of days at the bound, and the mean number of visits."""
        synthetic = model.sample(2000, seed=0)["visits"]
        day = synthetic["day"].to_numpy()
        whose = synthetic["id"].to_numpy()
        gaps = np.diff(day)[np.diff(whose) == 0]
        return (gaps == 0).mean(), (day == 150).mean(), np.bincount(whose)[1:].mean()

    still, last, number = drawn()
    assert still < 0.003
    assert last < 0.01
    assert number == pytest.approx(8, abs=0.1)
    monkeypatch.setattr("noisegate.models.linked.link_model.FAMILY_RETRIES", 0)
    assert drawn()[1] > 0.02


def test_without_scipy_a_fit_is_refused_before_anything_is_spent(monkeypatch):
    monkeypatch.setattr(
        "noisegate.errors.installed", lambda package: package != "scipy"
    )
    with pytest.raises(
        MissingExtraError, match=r"linked needs scipy; .*noisegate\[scipy\]"
    ):
        Linked().check_fit("cpu")


def test_keys_of_several_columns_bring_together_and_are_made_afresh():
    # Each account has the loans 1 and 11, so that 1 with 11 and 11 with 1 are told apart by their lengths alone.
    two = ("user", "loan")
    owed = [(user, number) for user in range(1, 41) for number in (1, 11)]
    users, numbers = zip(*owed, strict=True)
    paid = [key for key in owed for _ in range(1 + key[1] // 11)]
    late = pa.array([True, False, True] * 40)
    whose, which = zip(
        *[(f"{user}.0", float(number)) for user, number in paid], strict=True
    )
    data = {
        "accounts": pa.table({"user": list(range(1, 41)), "ill": late[:40]}),
        "loans": pa.table({"user": users, "loan": numbers, "big": late[:80]}),
        "payments": pa.table({"user": whose, "loan": which, "late": late}),
    }
    accounts = LinkedTable(name="accounts", key="user", schema=Schema([boolean("ill")]))
    link_fields = {"key": two, "parent": "accounts", "parent_key": "user", "most": 2}
    loans = LinkedTable(name="loans", schema=Schema([boolean("big")]), **link_fields)
    payments = LinkedTable(
        name="payments", parent="loans", most=3, schema=Schema([boolean("late")])
    )
    schema = LinkedSchema([accounts, loans, payments])
    assert (
        LinkedSchema.loads(schema.dumps())
        == schema
        == LinkedSchema.from_json(schema.to_json())
    )
    with LinkedSource(data, schema) as source:
        child_counts = {
            link.name: [
                sorted(family.child_counts) for family in source.read_families(link)
            ]
            for link in schema.links
        }
    assert child_counts == {"loans": [[2] * 40], "payments": [[1] * 40 + [2] * 40]}
    with pytest.raises(SchemaError, match=r"names a record by no more than its parent"):
        replace(schema.table("payments"), key=("loan", "user"))
    with pytest.raises(
        SchemaError, match=r"name a column for each of its columns, in its order"
    ):
        LinkedSchema([accounts, loans, replace(payments, parent_key="user")])
    synthetic = (
        Linked(**SETTINGS)
        .fit(Gate(data, schema=schema, epsilon=5.0))
        .sample(300, seed=1)
    )
    keys = [
        set(zip(*(synthetic[name][part].to_pylist() for part in two), strict=True))
        for name in ("loans", "payments")
    ]
    assert keys[1] <= keys[0]
    assert len(keys[0]) == synthetic["loans"].num_rows > 0
    assert {user for user, _ in keys[0]} <= set(
        synthetic["accounts"]["user"].to_pylist()
    )


def test_children_that_found_no_parents_are_told_of():
    keys = pc.utf8_lpad(DATA["visits"]["id"].cast("string"), 9, "0")
    lost = {**DATA, "visits": DATA["visits"].set_column(0, "id", keys)}
    loose = LinkedSchema(
        [PATIENTS, replace(VISITS, orphans="drop"), replace(CODES, orphans="drop")]
    )
    fitted = Linked(**SETTINGS).fit(Gate(lost, schema=loose, epsilon=5.0))
    assert "are keys written alike in both tables?" in fitted.summary.notes["warning"]


RELATED = """
[tables.patients]
key = "id"
[tables.patients.columns.entered]
kind = "integer"
lower = 0
upper = 400
[tables.patients.columns.chronic]
kind = "boolean"
[tables.visits]
parent = "patients"
most = 6
[tables.visits.columns.day]
kind = "integer"
lower = 0
upper = 600
[tables.visits.columns.left]
kind = "integer"
lower = 0
upper = 700
[tables.visits.columns.since]
kind = "integer"
lower = 0
upper = 150
[tables.visits.columns.pain]
kind = "integer"
lower = 0
upper = 10
missing = true
[[tables.visits.relations]]
rule = "left >= day"
[[relations]]
rule = "visits.day >= patients.entered"
[[relations]]
rule = "visits.since = visits.day - patients.entered"
[[relations]]
column = "visits.pain"
exactly_if = { "patients.chronic" = true }
"""


@pytest.fixture(scope="module")
def related_data():
    random = np.random.default_rng(3)
    entered = random.integers(0, 401, 2000)
    chronic = random.uniform(size=2000) < 0.4
    of = np.repeat(np.arange(2000), random.integers(0, 4, 2000))
    since = np.minimum(random.geometric(0.1, len(of)) - 1, 150)
    day = entered[of] + since
    pain = np.where(chronic[of], random.integers(0, 11, len(of)), -1)
    return {
        "patients": pa.table(
            {"id": np.arange(2000), "entered": entered, "chronic": chronic}
        ),
        "visits": pa.table(
            {
                "id": of,
                "day": day,
                "left": day + random.poisson(3, len(of)),
                "since": since,
                "pain": pa.array(pain, mask=~chronic[of]),
            }
        ),
    }


@pytest.fixture(scope="module")
def related(related_data):
    schema = LinkedSchema.loads(RELATED)
    gate = Gate(related_data, schema=schema, epsilon=10.0)
    return Linked(**SETTINGS).fit(gate)


def beside_parents(tables):
    """Visits with the columns of their patients."""
    return tables["visits"].to_pandas().merge(tables["patients"].to_pandas(), on="id")


def test_relations_with_parents_hold_in_every_record(related):
    visits = beside_parents(related.sample(3000, seed=1))
    assert len(visits) > 2000
    assert (visits.day >= visits.entered).all()
    assert (visits.since == visits.day - visits.entered).all()
    assert (visits.left >= visits.day).all()
    assert (visits.pain.notna() == visits.chronic).all()


def test_differences_to_parents_are_those_of_the_records(related, related_data):
    real = beside_parents(related_data)
    synthetic = beside_parents(related.sample(3000, seed=1))
    assert abs(synthetic.since.median() - real.since.median()) <= 1
    assert abs(synthetic.since.quantile(0.9) - real.since.quantile(0.9)) <= 4
    assert abs((synthetic.left - synthetic.day).median() - 3) <= 1


def test_a_model_with_relations_is_saved_and_loaded(related, tmp_path):
    loaded = load(related.save(tmp_path / "model"))
    assert loaded.sample(50, seed=2) == related.sample(50, seed=2)
