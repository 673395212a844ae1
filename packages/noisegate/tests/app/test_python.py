"""What the command line can, a Python session can: the verbs as functions, and every method beside its data."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.shared.short_runs import SCHEMA, SMALL, TABLE
from tests.shared.stated import ledger_of

import noisegate
from noisegate import Synthesizer
from noisegate.errors import BudgetRefusedError, ModelError, OptionError, SchemaError
from noisegate.methods.registry import make_for
from noisegate.sources.frames import read_table
from noisegate_evaluate import evaluate_tables

RUN = {"schema": SCHEMA, "epsilon": 2.0}


def classifier(**options):
    method = make_for(
        "dp-llm", SCHEMA, {"steps": 5, "sampling_probability": 0.1, "projection": None}
    )
    return method.fit(TABLE, **RUN, records=200, **options)


def test_a_method_takes_records_as_it_takes_a_gate(tmp_path):
    ledger = ledger_of(tmp_path, epsilon=2.5)
    model = SMALL.fit(
        TABLE.to_pandas(),
        **RUN,
        ledger=ledger,
        dataset="clinic",
        out=tmp_path / "model",
    )
    assert isinstance(model.sample(3), pd.DataFrame)
    assert model.certificate.public["settings"] == SMALL.to_json()
    assert model.certificate.ledger["dataset"] == "clinic"
    assert ledger.show("clinic")[0].spent == pytest.approx(2.0)
    assert noisegate.verify(tmp_path / "model").certificate == model.certificate
    with pytest.raises(BudgetRefusedError):
        SMALL.fit(TABLE, **RUN, ledger=ledger, dataset="clinic")


def test_a_method_that_is_made_takes_no_settings_beside_it():
    with pytest.raises(OptionError, match=r"cells=3: .* pass it to Pairwise"):
        noisegate.fit(TABLE, method=SMALL, **RUN, cells=3)
    with pytest.raises(OptionError, match=r"seed=3: .* pass it to Pairwise"):
        SMALL.fit(TABLE, **RUN, seed=3)
    with pytest.raises(OptionError, match="report"):
        SMALL.fit(TABLE, **RUN, report=print)
    with pytest.raises(OptionError, match="LocallyLinearMaps"):
        noisegate.synthesize(TABLE, method=make_for("dp-llm", SCHEMA, {}), **RUN)


def test_what_a_gate_knows_is_not_told_twice():
    gate = noisegate.Gate(TABLE, **RUN)
    with pytest.raises(OptionError, match="epsilon: give this to the gate"):
        SMALL.fit(gate, epsilon=1.0)
    with pytest.raises(OptionError, match=r"fit\(data, schema=schema, epsilon=1.0\)"):
        SMALL.fit(TABLE)
    assert (
        SMALL.fit(gate).certificate.epsilon == 2.0
    )  # nothing was spent by the refusals


def test_load_gives_whatever_model_a_folder_holds(tmp_path):
    records = SMALL.fit(TABLE, **RUN, out=tmp_path / "records")
    labels = classifier(out=tmp_path / "labels")
    assert isinstance(noisegate.load(tmp_path / "records"), Synthesizer)
    assert noisegate.load(str(tmp_path / "labels")).classes == labels.classes
    assert noisegate.load(tmp_path / "records").certificate == records.certificate
    with pytest.raises(ModelError, match=r"noisegate\.load"):
        Synthesizer.load(tmp_path / "labels")
    with pytest.raises(ModelError, match="does not exist"):
        noisegate.load(tmp_path / "nothing")
    with pytest.raises(ModelError, match="folder=None"):
        noisegate.load(None)
    (tmp_path / "records" / "release.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="was changed"):
        noisegate.load(tmp_path / "records")


def test_a_certificate_is_verified_without_its_files(tmp_path):
    certificate = SMALL.fit(TABLE, **RUN).certificate
    assert certificate.verify() == certificate.check() <= 2.0
    for claim in ({"epsilon": 1.0}, {"unit": "two\nlines"}):
        with pytest.raises(ModelError):
            noisegate.Certificate(**{**vars(certificate), **claim}).verify()


@pytest.mark.parametrize("kind", [pa.table, pd.DataFrame, pl.DataFrame])
def test_a_schema_is_drafted_of_a_table_as_of_its_file(kind, tmp_path):
    columns = {
        "age": [18, 35, 62],
        "job": ["nurse", "baker", "nurse"],
        "ill": [True, False, True],
    }
    pa.csv.write_csv(pa.table(columns), tmp_path / "public.csv")
    drafted = noisegate.draft_schema(kind(columns), label="job")
    assert drafted == noisegate.draft_schema(tmp_path / "public.csv", label="job")
    with pytest.raises(SchemaError, match="label 'pay' is not a column of the table"):
        noisegate.draft_schema(kind(columns), label="pay")


def test_a_draft_takes_the_type_of_all_cells_of_an_object_column():
    many = pd.DataFrame({"code": pd.Series([1] * 70_000 + ["x"], dtype=object)})
    with pytest.raises(noisegate.UserError, match=r"'?code'?.* int and str"):
        noisegate.draft_schema(many)


def test_a_draft_is_reviewed_whole_with_its_reasons():
    names = {
        f"c{index:02}": [row * 7 % 31 + index * (row % 3) for row in range(900)]
        for index in range(12)
    }
    odd = {"<b>id": [f"p{row}" for row in range(900)], "smokes": ["Y", "N"] * 450}
    with pytest.warns(UserWarning, match="<b>id: ignored: each of the 900 values"):
        schema = noisegate.draft_schema(pa.table({**names, **odd}))
    shown = str(schema.review())
    assert all(f"\n  {name} " in shown for name in (*names, *odd))
    assert " ..." not in shown
    rules = [*map(str, schema.constraints), "Were the columns independent"]
    assert rules
    assert all(
        phrase in shown
        for phrase in ("ignored: each of the 900 values", "taken for true", *rules)
    )
    assert "<b>id" not in (page := schema.review()._repr_html_())
    assert "&lt;b&gt;id" in page
    assert (again := noisegate.Schema.loads(schema.dumps())) == schema
    assert again.digest() == schema.digest()
    assert "identifier" not in str(again.review())  # reasons are not stored


def test_evaluate_measures_what_the_command_line_measures(tmp_path):
    model = SMALL.fit(TABLE, **RUN)
    synthetic = model.sample(100, seed=1)
    test = TABLE.slice(0, 120)
    pa.csv.write_csv(test, tmp_path / "test.csv")
    SCHEMA.to_toml(tmp_path / "schema.toml")
    evaluation = noisegate.evaluate(
        synthetic.to_pandas(),
        tmp_path / "test.csv",
        schema=tmp_path / "schema.toml",
        train=pl.from_arrow(TABLE),
    )
    expected = evaluate_tables(
        synthetic, read_table(tmp_path / "test.csv", SCHEMA), SCHEMA, TABLE
    )
    assert evaluation.to_json() == expected.to_json()


def test_evaluate_draws_from_a_model_as_many_records_as_there_are():
    model = SMALL.fit(TABLE, **RUN)
    evaluation = noisegate.evaluate(model, TABLE.slice(0, 120), train=TABLE, seed=3)
    expected = noisegate.evaluate(
        model.sample(200, seed=3),
        TABLE.slice(0, 120),
        schema=SCHEMA,
        train=TABLE,
        seed=3,
    )
    assert evaluation.to_json() == expected.to_json()
    with pytest.raises(OptionError, match="schema=None"):
        noisegate.evaluate(TABLE, TABLE)
