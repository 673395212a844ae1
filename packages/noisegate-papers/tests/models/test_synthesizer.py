from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate import DPMERF, Gate, Synthesizer
from noisegate.errors import OptionError
from noisegate.models.mixture import Mixture
from noisegate.models.rejection import BATCH_ROWS
from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import NumericBins
from noisegate.schema import (
    Comparison,
    Date,
    Datetime,
    EncodedTable,
    Impossible,
    Ordinal,
    Schema,
    pixel_schema,
)

SCHEMA = Schema(
    (
        integer("age", 17, 90, missing=True),
        continuous("rate", -1.5, 2.5),
        categorical("work", ("a", "b", "never seen"), missing=True),
        Ordinal(name="grade", levels=(3, 5, 7)),
        boolean("member"),
        Date(name="born", lower=date(1950, 1, 1), upper=date(2020, 12, 31)),
        Datetime(
            name="seen",
            lower=datetime(2000, 1, 1, tzinfo=UTC),
            upper=datetime(2030, 1, 1, tzinfo=UTC),
        ),
    ),
    label="member",
)
ROWS = 3000
MISSING = 0.25


def people():
    rows = range(ROWS)
    return pa.table(
        {
            "age": pa.array(
                [None if i % 4 == 0 else 17 + i % 74 for i in rows], pa.int64()
            ),
            "rate": np.linspace(-1.5, 2.5, ROWS),
            "work": [(None, "a", "b", "a")[i % 4] for i in rows],
            "grade": [(3, 5, 7)[i % 3] for i in rows],
            "member": [i % 5 == 0 for i in rows],
            "born": [date(1960 + i % 40, 1 + i % 12, 1 + i % 28) for i in rows],
            "seen": [datetime(2001 + i % 20, 1, 1, tzinfo=UTC) for i in rows],
        }
    )


@pytest.fixture(scope="module")
def fitted():
    method = DPMERF(
        frequencies=50,
        latent=8,
        hidden=(32,),
        fit_options={"steps": 120, "stop_at_noise": False},
    )
    return method.fit(Gate(people(), schema=SCHEMA, epsilon=100.0), device="cpu")


class _Ramp:
    """A record model that counts: pixels of record i are i · 1/255, modulo 1; labels in turn."""

    kind = "ramp"

    def __init__(self, schema):
        self.layout, self.asked = schema.layout, []

    def draw(self, rows, random):
        self.asked.append(rows)
        numeric = np.tile(
            (np.arange(rows) % 256 / 255)[:, None], (1, len(self.layout.numeric))
        )
        codes = np.zeros((rows, len(self.layout.coded)), np.int32) + (
            np.arange(rows) % 3
        )[:, None].astype(np.int32)
        return EncodedTable(numeric, codes)


def _images_of(fitted, schema):
    certificate = fitted.release.certificate
    certificate = replace(
        certificate, public={**certificate.public, "schema": schema.to_json()}
    )
    release = replace(fitted.release, certificate=certificate)
    return Synthesizer(release=release, model=_Ramp(schema), summary=fitted.summary)


def test_images_come_in_batches_that_do_not_grow_with_them(fitted):
    schema = pixel_schema(128, 128, 3, labels=("a", "b", "c"))
    made = _images_of(fitted, schema)
    batches = list(made.images(400, seed=0))
    assert (
        sum(map(len, batches)) == 400 and max(made.model.asked) * 128 * 128 * 3 <= 2**23
    )
    assert batches[0].pixels[5].ravel().tolist() == [5] * schema.images.shape.size
    assert batches[0].labels[:4] == ("a", "b", "c", "a")


def test_images_may_be_asked_for_by_class(fitted):
    made = _images_of(fitted, pixel_schema(8, 8, labels=("a", "b", "c")))
    (batch,) = made.images(10, seed=0, where={"label": "b"})
    assert batch.labels == ("b",) * 10 and set(batch.pixels[:, 0, 0, 0] % 3) == {1}
    with pytest.raises(OptionError, match="'x'"):
        made.images(10, where={"label": "x"})
    with pytest.raises(OptionError, match="n=-1"):
        made.images(-1)


@pytest.fixture(scope="module")
def made(fitted):
    return fitted.sample(4000, seed=0)


def test_columns_and_types_are_those_of_the_schema(made):
    text, moment = pa.string(), pa.timestamp("us", tz="UTC")
    kinds = [
        pa.int64(),
        pa.float64(),
        text,
        pa.int64(),
        pa.bool_(),
        pa.date32(),
        moment,
    ]
    assert (
        made.schema == pa.schema(list(zip(SCHEMA.names, kinds, strict=True)))
        and made.num_rows == 4000
    )


def test_values_stay_within_bounds_and_levels(made):
    for name in ("age", "rate", "born", "seen"):
        column = SCHEMA.column(name)
        values = made[name].drop_null().to_pylist()
        assert column.lower <= min(values) and max(values) <= column.upper
        assert len(set(values)) > 10
    assert set(made["work"].to_pylist()) <= {"a", "b", "never seen", None}
    assert set(made["grade"].to_pylist()) == {3, 5, 7}


def test_values_are_missing_as_often_as_in_the_data_and_only_where_allowed(made):
    for name in SCHEMA.names:
        share = made[name].null_count / made.num_rows
        if name in ("age", "work"):
            # Sampling and fitting: far below the distance to 0 or to one half.
            assert abs(share - MISSING) < 0.1
        else:
            assert share == 0


def test_the_label_comes_in_its_share(made):
    assert abs(np.mean(made["member"].to_pylist()) - 0.2) < 0.04


def test_a_seed_repeats_and_no_seed_does_not(fitted):
    assert fitted.sample(50, seed=7).equals(fitted.sample(50, seed=7))
    assert not fitted.sample(50, seed=7).equals(fitted.sample(50, seed=8))
    assert not fitted.sample(50).equals(fitted.sample(50))


def test_batches_are_the_sample_in_pieces(fitted):
    rows = BATCH_ROWS + 10
    parts = list(fitted.batches(rows, seed=1))
    assert [part.num_rows for part in parts] == [BATCH_ROWS, 10]
    assert pa.concat_tables(parts).equals(fitted.sample(rows, seed=1))


@pytest.mark.parametrize("n", [-1, 2.5, "10", True, None])
def test_an_unusable_number_of_records_is_refused(fitted, n):
    with pytest.raises(OptionError, match="n="):
        fitted.sample(n)


WHERE = {
    "member": True,
    "age": (20, 40),
    "work": None,
    "born": (None, date(1990, 1, 1)),
}


def test_a_condition_holds_for_every_record_and_leaves_the_rest_to_the_model(
    fitted, made
):
    some = fitted.sample(600, seed=1, where=WHERE)
    assert some.num_rows == 600 and set(some["member"].to_pylist()) == {True}
    assert some["work"].null_count == 600
    assert 20 <= min(some["age"].to_pylist()) < max(some["age"].to_pylist()) <= 40
    assert (
        max(some["born"].to_pylist()) <= date(1990, 1, 1) and some.schema == made.schema
    )
    # The same records as those that a large sample happens to have: compared in a column that is not named.
    large = fitted.sample(60_000, seed=2).to_pandas()
    kept = large[
        large.member
        & large.age.between(20, 40)
        & large.work.isna()
        & (large.born <= date(1990, 1, 1))
    ]
    rate = some["rate"].to_numpy()
    assert len(kept) > 200
    assert (
        abs(rate.mean() - kept.rate.mean())
        < 5 * (rate.var() * (1 / 600 + 1 / len(kept))) ** 0.5
    )


def test_each_value_of_a_column_comes_as_often_whatever_its_share(fitted):
    some = fitted.sample(301, seed=1, even="grade", where={"work": "a"})
    assert sorted(some["grade"].to_pylist().count(grade) for grade in (3, 5, 7)) == [
        100,
        100,
        101,
    ]
    assert (
        set(some["work"].to_pylist()) == {"a"}
        and len(set(some["grade"].to_pylist()[:20])) > 1
    )
    assert None not in fitted.sample(30, seed=1, even="work")["work"].to_pylist()
    assert fitted.sample(20, seed=4, even="member").equals(
        fitted.sample(20, seed=4, even="member")
    )


@pytest.mark.parametrize(
    ("even", "says"),
    [
        ("wrk", "even: no column 'wrk'"),
        ("age", "even='age': the column holds numbers"),
        ("member", r"even='member': where=\{'member': True\} says"),
    ],
)
def test_a_column_that_cannot_be_even_is_named(fitted, even, says):
    with pytest.raises(OptionError, match=says):
        fitted.batches(5, even=even, where={"member": True})


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"wrk": "a"}, "where: no column 'wrk'"),
        ("work=a", "where='work=a' must map names"),
        ({"work": "c"}, "where: column 'work': 'c' is not one of its values"),
        ({"age": (40, 20)}, "where: column 'age'.*empty"),
        ({"age": (91, None)}, "outside the schema's bounds 17 to 90"),
        ({"rate": (float("nan"), None)}, "a finite number, found nan"),
        ({"grade": None}, "'grade': a value is never missing"),
        ({"rate": 0.123}, r"where=\{'rate': 0.123\}: of 1.* only 0 did"),
    ],
)
def test_a_condition_that_cannot_be_met_is_named(fitted, where, says):
    with pytest.raises(OptionError, match=says):
        fitted.sample(5, where=where)


PAIR = (integer("low", 0, 9, missing=True), continuous("high", 0, 12))
PAIR += (categorical("sex", "mf"), boolean("pregnant"))
RULES = (
    Comparison(left="low", relation="<=", right="high"),
    Impossible(values={"sex": "m", "pregnant": True}),
)


def test_synthetic_records_keep_to_the_constraints_though_private_ones_do_not():
    numbers = np.random.default_rng(0)
    private = pa.table(
        {
            "low": pa.array(
                [None if i % 5 == 0 else i % 10 for i in range(2000)], pa.int64()
            ),
            "high": numbers.uniform(0, 12, 2000),
            "sex": numbers.choice(["m", "f"], 2000),
            "pregnant": numbers.random(2000) < 0.5,
        }
    )
    method = DPMERF(
        frequencies=30,
        latent=4,
        hidden=(16,),
        fit_options={"steps": 60, "stop_at_noise": False},
    )
    free, held = (
        method.fit(
            Gate(private, schema=Schema(PAIR, constraints=rules), epsilon=100.0),
            device="cpu",
        )
        for rules in ((), RULES)
    )
    # Counted as they are: apart from the schema in the certificate, the constraints change nothing that is asked.
    assert held.certificate.events == free.certificate.events

    def broken(made):
        table = made.to_pandas()
        return ((table.low > table.high) | ((table.sex == "m") & table.pregnant)).sum()

    assert (free.kept_share, free.often_broken) == (1.0, None)
    with pytest.warns(UserWarning, match="keep to the constraints"):
        made = held.sample(5000, seed=0)
        some = held.sample(200, seed=0, where={"sex": "m", "high": (None, 3)})
    assert (made.num_rows, broken(made)) == (5000, 0) and made["low"].null_count > 300
    assert broken(free.sample(5000, seed=0)) > 500 and (
        some.num_rows,
        broken(some),
    ) == (200, 0)
    assert set(some["pregnant"].to_pylist()) == {False}
    with pytest.raises(
        OptionError, match=r"where=.* and the constraints of the schema: of 1"
    ):
        list(held.batches(5, where={"sex": "m", "pregnant": True}))


def mixture(rare):
    """Two components; `rare` is the share of the one in which everybody is pregnant."""
    layout = Schema(PAIR).layout
    within = tuple(
        WithinCell.from_edges(
            column,
            NumericBins((0.5,), column.missing),
            edges=np.array([0, 0.5, 1]),
            masses=np.ones(2),
        )
        for column in layout.numeric
    )
    tables = [np.full((2, size), 1 / size) for size in (3, 2, 2)]
    return Mixture(
        layout=layout,
        within=within,
        weights=np.array([1 - rare, rare]),
        probabilities=(*tables, np.array([[1.0, 0.0], [0.0, 1.0]])),
    )


@pytest.fixture(scope="module")
def mixed():
    """A release of the constrained schema with a mixture in place of the network that was fitted to it."""
    method = DPMERF(frequencies=5, latent=2, hidden=(4,), fit_options={"steps": 0})
    table = pa.table({"low": [1], "high": [2.0], "sex": ["m"], "pregnant": [False]})
    made = method.fit(
        Gate(table, schema=Schema(PAIR, constraints=RULES), epsilon=1.0), device="cpu"
    )
    return replace(made, model=mixture(rare=1e-9))


def test_a_mixture_gives_conditions_that_rejection_could_not(mixed):
    made = mixed.sample(300, seed=0, where={"pregnant": True, "low": (2, 7)})
    assert made.num_rows == 300 and set(made["pregnant"].to_pylist()) == {True}
    assert set(made["sex"].to_pylist()) == {"f"}
    low, high = made["low"].to_numpy(), made["high"].to_numpy()
    assert set(low) == set(range(2, 8)) and (low <= high).all()


def test_whoever_samples_is_told_that_constraints_shift_what_is_sampled(mixed):
    assert mixed.often_broken is None
    pregnant = replace(
        mixed, model=mixture(rare=0.9)
    )  # where half are men, nine in ten pregnant
    low, high = np.arange(10), 12 * (np.arange(1, 25) - 0.5) / 24
    right = 0.55 * (2 / 3 * np.mean(low[:, None] <= high) + 1 / 3)
    assert pregnant.kept_share == pytest.approx(right, abs=0.05)
    with pytest.warns(
        UserWarning, match=r"about \d\d.\d% keep to the constraints.*drop a constraint"
    ):
        made = pregnant.sample(200, seed=0)
    assert made.num_rows == 200


def test_what_a_mixture_cannot_give_is_refused(mixed):
    certain = replace(mixed, model=mixture(rare=0.0))
    with pytest.raises(OptionError, match=r"where=.*: the model gives no such record"):
        certain.sample(1, where={"pregnant": True})


def test_no_record_is_in_a_saved_model(tmp_path):
    """A value that only a private record holds appears in no file, in no common form."""
    schema = Schema((continuous("x", 0.0, 1e6), boolean("y")), label="y")
    secret = 271828.1828
    table = pa.table({"x": [secret] * 3, "y": [True, False, True]})
    method = DPMERF(frequencies=20, latent=4, hidden=(8,), fit_options={"steps": 5})
    folder = method.fit(Gate(table, schema=schema, epsilon=1.0), device="cpu").save(
        tmp_path / "model"
    )
    forms = [
        str(secret).encode(),
        *(
            np.array(v, dtype=kind).tobytes()
            for v in (secret, secret / 1e6)
            for kind in "fd"
        ),
    ]
    for path in folder.iterdir():
        content = path.read_bytes()
        assert not any(form in content for form in forms), path.name
