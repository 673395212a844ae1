from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

from noisegate import DPMERF, Gate, Synthesizer
from noisegate.errors import ModelError, OptionError
from noisegate.schema import Boolean, Categorical, Continuous, Date, Datetime, Integer, Ordinal, Schema
from noisegate.synthesizer import SAMPLE_ROWS

SCHEMA = Schema(
    (
        Integer(name="age", lower=17, upper=90, missing=True),
        Continuous(name="rate", lower=-1.5, upper=2.5),
        Categorical(name="work", levels=("a", "b", "never seen"), missing=True),
        Ordinal(name="grade", levels=(3, 5, 7)),
        Boolean(name="member"),
        Date(name="born", lower=date(1950, 1, 1), upper=date(2020, 12, 31)),
        Datetime(name="seen", lower=datetime(2000, 1, 1, tzinfo=UTC), upper=datetime(2030, 1, 1, tzinfo=UTC)),
    ),
    label="member",
)
ROWS = 3000
MISSING = 0.25


def people():
    rows = range(ROWS)
    return pa.table(
        {
            "age": pa.array([None if i % 4 == 0 else 17 + i % 74 for i in rows], pa.int64()),
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
    method = DPMERF(frequencies=50, latent=8, hidden=(32,), fit_options={"steps": 120, "stop_at_noise": False})
    return method.fit(Gate(people(), schema=SCHEMA, epsilon=100.0), device="cpu")


@pytest.fixture(scope="module")
def made(fitted):
    return fitted.sample(4000, seed=0)


def test_columns_and_types_are_those_of_the_schema(made):
    text, moment = pa.string(), pa.timestamp("us", tz="UTC")
    kinds = [pa.int64(), pa.float64(), text, pa.int64(), pa.bool_(), pa.date32(), moment]
    assert made.schema == pa.schema(list(zip(SCHEMA.names, kinds, strict=True)))
    assert made.num_rows == 4000


def test_values_stay_within_bounds_and_levels(made):
    for name in ("age", "rate", "born", "seen"):
        column = SCHEMA.column(name)
        values = made[name].drop_null().to_pylist()
        assert column.lower <= min(values)
        assert max(values) <= column.upper
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
    rows = SAMPLE_ROWS + 10
    parts = list(fitted.batches(rows, seed=1))
    assert [part.num_rows for part in parts] == [SAMPLE_ROWS, 10]
    assert pa.concat_tables(parts).equals(fitted.sample(rows, seed=1))


def test_no_record_is_a_table_too(fitted, made):
    assert fitted.sample(0).schema == made.schema
    assert fitted.sample(0).num_rows == 0


@pytest.mark.parametrize("n", [-1, 2.5, "10", True, None])
def test_an_unusable_number_of_records_is_refused(fitted, n):
    with pytest.raises(OptionError, match="n="):
        fitted.sample(n)


def test_saving_and_loading_gives_the_same_synthesizer(fitted, tmp_path):
    folder = fitted.save(tmp_path / "model")
    loaded = Synthesizer.load(folder)
    assert loaded.sample(200, seed=3).equals(fitted.sample(200, seed=3))
    assert loaded.certificate.digest() == fitted.certificate.digest()
    assert loaded.summary == fitted.summary
    assert loaded.schema == fitted.schema
    again = loaded.save(tmp_path / "again")
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (again / name).read_bytes(), name


def test_an_unmeasured_fit_is_saved_too(tmp_path):
    schema = Schema((Boolean(name="y"),))
    method = DPMERF(frequencies=5, latent=2, hidden=(4,), fit_options={"steps": 0})
    fitted = method.fit(Gate(pa.table({"y": [True]}), schema=schema, epsilon=1.0), device="cpu")
    assert Synthesizer.load(fitted.save(tmp_path / "model")).summary.discrepancy == float("inf")


def test_a_model_is_not_written_over_anything(fitted, tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(ModelError, match="exists"):
        fitted.save(tmp_path / "model")
    assert list((tmp_path / "model").iterdir()) == []
    with pytest.raises(ModelError, match="is not a folder"):
        fitted.save(tmp_path / "no" / "model")


def test_no_record_is_in_a_saved_model(tmp_path):
    """A value that only a private record holds appears in no file, in no common form."""
    schema = Schema((Continuous(name="x", lower=0.0, upper=1e6), Boolean(name="y")), label="y")
    secret = 271828.1828
    table = pa.table({"x": [secret] * 3, "y": [True, False, True]})
    method = DPMERF(frequencies=20, latent=4, hidden=(8,), fit_options={"steps": 5})
    folder = method.fit(Gate(table, schema=schema, epsilon=1.0), device="cpu").save(tmp_path / "model")
    forms = [
        str(secret).encode(),
        *(np.array(v, dtype=kind).tobytes() for v in (secret, secret / 1e6) for kind in "fd"),
    ]
    for path in folder.iterdir():
        content = path.read_bytes()
        assert not any(form in content for form in forms), path.name
