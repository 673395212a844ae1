"""What a discovery makes of noisy counts: each step alone, by counts that are written out."""

from datetime import UTC, date, datetime

import numpy as np
import pytest
from tests.shared.columns import boolean, integer

from noisegate.gate.discovery.exact_counts import (
    BinEdges,
    bin_edges,
    read_counts,
)
from noisegate.gate.discovery.findings import (
    Finding,
    OccupiedBins,
    choose_cells,
    column_from_levels,
    find_bounds,
    find_occupied_bins,
    round_bounds,
    schema_text,
)
from noisegate.gate.discovery.partial import Gap, PartialSchema
from noisegate.gate.discovery.raw import RawTable

AGE = Gap(name="age", kind="integer", missing=True)


def test_records_without_a_value_are_counted_apart(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,id\n5,1\n,2\n7,3\n,4\n")
    partial = PartialSchema(columns={"age": AGE}, missing_values=("",))
    edges = {"age": BinEdges(edges=np.array([0, 6, 10]), is_clamped=True)}
    messages = []
    counts = read_counts(RawTable(path), partial, edges, {}, messages.append)
    assert counts.bins["age"].tolist() == [1, 1]
    assert counts.missing == {"age": 2}
    assert counts.records == 4
    assert messages == [4]


def test_integer_cells_have_whole_edges_and_zero_a_bin_of_its_own():
    cells = BinEdges(edges=np.array([0, 7]), is_clamped=True).divide_evenly(0, 0, 4)
    assert cells.edges.tolist() == [0, 1, 3, 5, 7]
    around = bin_edges("integer").around_zero().edges
    middle = len(around) // 2 - 1
    assert around[middle : middle + 2].tolist() == [0, 1]
    assert around[middle + 2] == 16
    assert around[middle - 1] == -15
    assert len(around) == 28
    assert (around == np.sort(1 - around)).all()


def test_rows_stand_out_together_and_neighbours_are_taken_in_as_tails():
    # 3, 3, 3 and 3 stand out together alone; 2.5 beside them is a tail, 2 is not.
    noisy = np.array([0.0, 2.0, 2.5, 3.0, 3.0, 3.0, 3.0, 0.5, 0.0])
    occupied = find_occupied_bins(noisy, 1.0, None)
    assert occupied.first == 2
    assert occupied.last == 6
    assert occupied.gap is None


def test_only_a_wide_gap_is_told_and_none_beside_zero():
    noisy = np.zeros(60)
    noisy[[2, 5]] = 100.0
    assert find_occupied_bins(noisy, 1.0, None).gap is None
    noisy[50] = 100.0
    assert find_occupied_bins(noisy, 1.0, None).gap == (5, 50)
    assert find_occupied_bins(noisy, 1.0, 50).gap is None


def test_more_noise_makes_fewer_cells():
    bins = BinEdges(edges=np.array([0, 1024, 2048]), is_clamped=True)
    occupied = OccupiedBins(first=0, last=1)
    sizes = [
        choose_cells(bins, occupied, np.array([1e6, 1e6]), std).size
        for std in (1.0, 1e3, 1e5, 1e6)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 1
    assert choose_cells(bins, occupied, np.array([1e6, 1e6]), 1.0).edges[-1] == 2048


def test_beside_zeros_bounds_are_those_of_what_stands_out():
    bins = bin_edges("integer")
    zero = OccupiedBins(first=bins.zero_bin, last=bins.zero_bin)
    cells = bins.around_zero()
    middle = cells.size // 2
    first_look = np.zeros(bins.size)

    def bounds(*high):
        counts = np.zeros(cells.size)
        counts[[middle, *high]] = 1000.0
        return find_bounds(bins, zero, first_look, cells, counts, 1.0)

    assert bounds() is None
    assert bounds(middle + 1) == (0, int(cells.edges[middle + 2]) - 1)
    assert bounds(middle - 1) == (int(cells.edges[middle - 1]), 0)


def test_long_ranges_of_days_and_times_are_whole_years():
    low = 100
    high = 1000
    assert round_bounds("date", low, high) == (date(1970, 1, 1), date(1972, 12, 31))
    assert round_bounds("date", 100, 130) == (date(1970, 4, 11), date(1970, 5, 11))
    day = 86_400_000_000
    first, last = round_bounds("datetime-utc", low * day, high * day)
    assert first == datetime(1970, 1, 1, tzinfo=UTC)
    assert last == datetime(1972, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert round_bounds("datetime", low * day, high * day)[1].tzinfo is None


def test_the_note_of_levels_tells_how_many_records_lack_a_value():
    gap = Gap(name="job", kind="categorical", missing=True)
    seen = column_from_levels(gap, {"nurse": 90.0}, 41.6, 20.0, ())
    assert seen.note.endswith("; about 42 records lack a value")
    hidden = column_from_levels(gap, {"nurse": 90.0}, None, 20.0, ())
    assert hidden.note.endswith("; fewer than about 20 records lack a value")


def test_the_file_has_notes_on_what_is_ignored_and_the_texts_for_missing_values():
    partial = PartialSchema(
        columns={
            "age": AGE,
            "job": Gap(name="job", kind="categorical", missing=False),
            "id": None,
        },
        missing_values=("?",),
    )
    age = integer("age", 0, 99, missing=True)
    text = schema_text(
        partial,
        {
            "age": Finding(column=age, note="a note"),
            "job": Finding(column=None, note="ignored: no level"),
        },
        "one\ntwo",
    )
    assert text.startswith('# one\n# two\n# "job": ignored: no level\n')
    assert 'missing_values = ["?"]' in text
    assert 'ignore = ["job", "id"]' in text
    assert "a note" in text


def test_a_certificate_states_which_columns_were_given():
    ill = boolean("ill")
    partial = PartialSchema(columns={"age": AGE, "ill": ill, "id": None}, label="ill")
    assert partial.to_json()["kinds"] == {
        "age": "integer",
        "ill": "boolean (given)",
        "id": "ignore",
    }


@pytest.mark.parametrize(("text", "looks"), [("5\n7\n", False), ("5\nage\n", True)])
def test_a_header_that_is_a_value_too_looks_like_a_record(tmp_path, text, looks):
    path = tmp_path / "people.csv"
    path.write_text("age\n" + text)
    assert RawTable(path).has_record_as_header() is looks


def test_a_file_with_one_record_has_records(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age\n5\n")
    (batch,) = RawTable(path).batches((AGE,), ("",))
    values, missing = batch["age"]
    assert values.tolist() == [5]
    assert missing == 0
