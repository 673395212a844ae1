"""What a cell of a Parquet file says does not depend on the row groups, pages or dictionaries that it is kept in."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisegate.data import TableSource
from noisegate.data.units import UnitLimit
from noisegate.discovery.partial import Gap
from noisegate.discovery.raw import RawTable
from noisegate.schema import EncodedTable, Schema


def as_dictionary(table):
    """The same records with text in dictionaries, another one in each chunk."""
    names = ("work", "unit")
    pieces = []
    for start in range(0, table.num_rows, 37):
        piece = table.slice(start, 37).combine_chunks()
        encoded = {name: piece[name].dictionary_encode() for name in names}
        pieces.append(pa.table({name: encoded.get(name, piece[name]) for name in piece.column_names}))
    return pa.concat_tables(pieces)


LAYOUTS = [
    {"row_group_size": size, "data_page_size": page, "use_dictionary": dictionary}
    for size in (7, 64)
    for page in (1, 1 << 20)
    for dictionary in (True, False)
]


@pytest.mark.parametrize("form", ["plain", "dictionaries"])
def test_no_layout_of_a_file_changes_a_record(form, people, schema, tmp_path):
    people = people.append_column("unit", pa.array([f"person {i % 90}" for i in range(300)]))
    table = people if form == "plain" else as_dictionary(people)
    gap = Gap(name="work", kind="categorical")
    schema = Schema(schema.columns, label=schema.label, ignore=("unit",))

    def seen(source, rows):
        units = UnitLimit(column="unit", contributions=2)
        found = EncodedTable.concatenate(list(TableSource(source, schema, batch_rows=rows).batches()))
        used = EncodedTable.concatenate(list(TableSource(source, schema, batch_rows=rows, units=units).batches()))
        texts = [text for batch in RawTable(source).batches((gap,), ()) for text in batch["work"].values.to_pylist()]
        return [part.tobytes() for encoded in (found, used) for part in (encoded.numeric, encoded.codes)], texts

    expected = seen(people, 300)
    assert seen(table, 30) == expected  # in memory
    for layout in LAYOUTS:
        pq.write_table(table, tmp_path / "x.parquet", **layout)
        assert seen(tmp_path / "x.parquet", 30) == expected, layout
