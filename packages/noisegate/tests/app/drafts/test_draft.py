import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.shared.columns import continuous

from noisegate.app.drafts.draft import draft, draft_schema
from noisegate.errors import SchemaError
from noisegate.schema import Schema
from noisegate.sources import TableSource

from .conftest import written


def test_a_draft_from_parquet_uses_the_types(people, tmp_path):
    path = tmp_path / "public.parquet"
    pa.parquet.write_table(people, path)
    schema = draft_schema(path)
    kinds = "integer continuous categorical integer boolean date datetime"
    assert [column.kind for column in schema.columns] == kinds.split()
    assert [column.missing for column in schema.columns] == [
        True,
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert sum(len(batch) for batch in TableSource(path, schema).batches()) == 300


LEFT_OUT = {
    "note": (
        [f"text {i}" for i in range(90)],
        "each of the 90 values occurs once, like an identifier",
    ),
    "story": (
        [f"she came in on day {i} and left" for i in range(45)] * 2,
        "45 distinct texts: free text",
    ),
    "town": ([f"town {i % 3}" if i % 2 else f"village {i}" for i in range(90)], None),
    "gone": (["?", ""] * 45, "every value is missing"),
    "far": (["inf", "-inf"] * 45, "no finite number"),
    "patient_id": (
        [100_000 + 7 * (i * 37 % 90) for i in range(90)],
        "each of the 90 values occurs once",
    ),
    "row": (list(range(1, 91)), "each of the 90 values occurs once"),
    "break": (
        ["a\u2028b", "c"] * 45,
        "the level 'a\\u2028b' holds a character that cannot",
    ),
}


@pytest.fixture(scope="module")
def left_out(tmp_path_factory):
    columns = {name: values for name, (values, _) in LEFT_OUT.items()}
    return written(
        tmp_path_factory.mktemp("draft"), {**columns, "age": list(range(20, 50)) * 3}
    )


def test_no_column_stops_a_draft_and_each_that_is_left_out_has_its_reason(
    left_out, tmp_path
):
    for name, (_, reason) in LEFT_OUT.items():
        assert (name in left_out.ignored) == (reason is not None), name
        assert reason is None or left_out.ignored[name].startswith(
            f"{name}: ignored: {reason}"
        ), name
    schema = Schema.loads(left_out.toml())
    assert schema == left_out.schema
    assert schema.names == ("town", "age")
    table = {name: values for name, (values, _) in LEFT_OUT.items()} | {
        "age": list(range(20, 50)) * 3
    }
    pa.csv.write_csv(pa.table(table), tmp_path / "public.csv")
    assert (
        sum(
            len(batch)
            for batch in TableSource(tmp_path / "public.csv", schema).batches()
        )
        == 90
    )


def test_what_is_left_out_stands_in_the_file_as_a_comment_ready_for_use(left_out):
    text = left_out.toml()
    assert (
        '# [columns.far]\n# kind = "continuous"\n# # lower = \n# # upper = \n' in text
    )
    text = text.replace("# [columns.far]\n# ", "[columns.far]\n").replace('"far", ', "")
    text = text.replace("# # lower = ", "lower = 0").replace(
        "# # upper = ", "upper = 9"
    )
    assert Schema.loads(text).column("far") == continuous("far", 0, 9)


def test_where_no_column_can_be_used_all_reasons_are_said(tmp_path):
    with pytest.raises(
        SchemaError,
        match=r"no column can be described: gone: ignored: .*; far: ignored: no finite",
    ):
        written(tmp_path, {name: LEFT_OUT[name][0] for name in ("gone", "far")})
    with pytest.raises(
        SchemaError,
        match=r"label 'gone' cannot be predicted as it is: .*every value is missing",
    ):
        pa.csv.write_csv(
            pa.table({"gone": ["?", ""], "x": [1, 2]}), tmp_path / "public.csv"
        )
        draft(tmp_path / "public.csv", label="gone")
