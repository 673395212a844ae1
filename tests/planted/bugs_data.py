"""Planted bugs in how private records are read: units, files, tables in memory, images."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.planted.patches import Plant, bug, find

FIRST = "test_the_first_records_of_each_unit_are_used"
SWALLOWED = "test_what_could_swallow_records_is_refused_with_its_line"

# Units with several records.


@bug(FIRST)
def a_record_more_of_each_unit(plant: Plant) -> None:
    """One record more than the limit is used of each unit."""

    @plant.wrap("unit_counter.UnitCounter.__init__")
    def _(init: Any, counter: Any, limit: Any, missing: Any) -> None:
        init(counter, dataclasses.replace(limit, contributions=limit.contributions + 1), missing)


@bug(FIRST)
def units_forgotten_between_batches(plant: Plant) -> None:
    """Each batch is counted for itself."""
    plant.wrap("unit_counter.HashTable.add")(lambda add, *arguments: 0 * add(*arguments))


@bug(FIRST)
def records_of_a_batch_not_counted(plant: Plant) -> None:
    """All records of a unit in one batch count as the first of them."""
    plant.wrap("unit_counter._ranks")(lambda _, places, met: np.zeros_like(places))


@bug("test_the_table_counts_like_a_dictionary_while_it_grows")
def units_forgotten_when_the_table_grows(plant: Plant) -> None:
    """The table of units is empty again when it was full."""
    plant.rewrite("unit_counter.HashTable._grow", "any_table._numbers[any_slots] = any_numbers", "")


@bug("test_every_kind_of_source_uses_the_same_records")
def units_counted_anew_in_each_file(plant: Plant) -> None:
    """The limit on a unit's records is one for each file."""

    @plant.wrap("tables.TableSource.unread")
    def _(unread: Any, source: Any) -> Any:
        for origin in source._origins:
            alone = copy.copy(source)
            alone._origins = [origin]
            yield from unread(alone)


@bug(FIRST)
def limit_not_kept(plant: Plant) -> None:
    """All records of a unit are used."""
    plant.wrap("unit_counter.UnitCounter.used")(lambda used, *arguments: used(*arguments) | True)


@bug("test_numbers_beyond_64_bits_stop_the_run_since_readers_clamp_them")
def units_beyond_64_bits_are_one(plant: Plant) -> None:
    """Units whose numbers were clamped to one are taken for one."""
    plant.wrap("unit_counter._clamped")(lambda clamped, units: clamped(units) & False)


@bug("test_a_record_without_a_unit_stops_the_run")
def records_without_a_unit(plant: Plant) -> None:
    """Records whose unit is missing are used, as many as there are."""

    @plant.wrap("unit_counter.UnitCounter.used")
    def _(used: Any, counter: Any, units: Any) -> Any:
        try:
            return used(counter, units)
        except find("unit_counter.UnitProblem") as problem:
            if problem.missing:
                return np.ones(len(units), dtype=np.bool_)
            raise


@bug("test_hashes_depend_on_a_key_that_is_secret_and_new_for_every_run")
def hashes_with_a_fixed_key(plant: Plant) -> None:
    """Units can be made up beforehand that push out the records of others."""

    @plant.wrap("unit_counter.UnitLimit.__init__")
    def _(init: Any, limit: Any, **fields: Any) -> None:
        init(limit, **{"key": b"noisegate", **fields})


# Records of CSV files.


@bug("test_pieces_of_any_size_give_the_records_that_python_reads")
def csv_cut_inside_quotes(plant: Plant) -> None:
    """A piece of a file ends at any line end, also at one inside quotes."""
    plant.wrap("csv_file._last_end")(lambda _, piece, quotes: max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1)


@bug("test_pieces_of_any_size_give_the_records_that_python_reads")
def csv_mark_at_the_start_of_a_piece(plant: Plant) -> None:
    """What looks like a byte order mark is dropped at the start of each piece."""
    plant.rewrite("csv_file._parsed", "b'\\n' + any_piece", "any_piece")


@bug(SWALLOWED)
def csv_quotes_anywhere(plant: Plant) -> None:
    """A quote in the middle of a cell is let pass."""

    @plant.wrap("csv_file._check_quotes")
    def _(check: Any, *arguments: Any, **options: Any) -> None:
        try:
            check(*arguments, **options)
        except find("csv_file.RecordProblem") as problem:
            if "neither begins nor ends a cell" not in problem.reason:
                raise


@bug(SWALLOWED)
def csv_quote_never_closed(plant: Plant) -> None:
    """A file may end inside quotes, in a cell of many records."""
    plant.wrap("csv_file._check_quotes")(lambda check, *arguments, ended: check(*arguments, ended=False))


# Tables.


@bug("test_one_date_among_moments_does_not_make_midnights_of_them")
def one_type_for_all_objects(plant: Plant) -> None:
    """The type of a column of Python objects is guessed from all of them together."""
    plant.wrap("objects.objects_to_arrow")(lambda _, cells: pa.array(cells, from_pandas=True))


@bug("test_polars_categories_become_the_levels_of_the_schema")
def private_texts_in_polars_categories(plant: Plant) -> None:
    """Synthetic categories share a table of texts with the private ones."""

    @plant.wrap("frames.NativeForm.__call__")
    def _(call: Any, form: Any, table: Any) -> Any:
        import polars as pl

        frame = call(form, table)
        if form.kind == "polars":
            return frame.with_columns(pl.col(name).cast(pl.String).cast(pl.Categorical) for name in form.categories)
        return frame


@bug("test_only_parquet_suggests_kinds")
def kinds_from_the_values(plant: Plant) -> None:
    """The kinds of columns follow from the types of a table in memory, and so from its values."""
    plant.rewrite("raw", "isinstance(any_origin, ParquetFile)", "any_origin.typed")


@bug("test_a_column_without_a_kind_is_asked_for")
def record_quoted_as_header(plant: Plant) -> None:
    """The first line of a file is quoted, though it may be a record."""
    plant.wrap("raw.RawTable.quotable")(lambda *_: True)


# Public records that are none.


@bug("test_a_file_of_the_private_data_is_found")
def copies_of_private_files_as_public_ones(plant: Plant) -> None:
    """A copy of a private file passes for a public one."""

    @plant.wrap("same_files.check_apart")
    def _(check_apart: Any, private: Any, public: Any) -> None:
        paths = isinstance(private, str | Path) and isinstance(public, str | Path)
        if not paths or Path(private) == Path(public):
            check_apart(private, public)


@bug("test_a_public_set_that_is_the_private_one_is_refused_before_anything_is_spent")
def private_records_as_public_ones(plant: Plant) -> None:
    """Whether public data holds private records is not asked."""
    plant.wrap("gate.Gate.check_apart")(lambda *_: None)


# Images as they come.


@bug("test_a_file_that_cannot_be_read_is_refused_even_where_bad_images_are_skipped")
def a_failing_disk_skips_images(plant: Plant) -> None:
    """An image that could not be read this time is skipped like one that is broken."""

    @plant.wrap("image_decode.decode_picture")
    def _(decode: Any, *arguments: Any) -> Any:
        try:
            return decode(*arguments)
        except OSError as error:
            raise find("image_decode.PictureProblem")(str(error.strerror)) from None


@bug("test_skipping_is_for_add_remove_only_and_not_for_all_images")
def skipped_images_counted_by_replace_one(plant: Plant) -> None:
    """Images are skipped under replace-one, where their number is public."""

    @plant.wrap("gate.Gate.__init__")
    def _(init: Any, gate: Any, data: Any, **options: Any) -> None:
        if options.get("on_error") != "skip":
            return init(gate, data, **options)
        adjacency = options.pop("adjacency", "add-remove")
        init(gate, data, **options)
        relation = type(gate.budget.adjacency)(adjacency)
        gate.budget = dataclasses.replace(gate.budget, adjacency=relation)
        return None


@bug("test_a_bad_image_is_refused_by_its_place_and_nothing_is_spent")
def file_names_in_errors(plant: Plant) -> None:
    """Names of private files are quoted unasked."""

    @plant.wrap("image_folder.ImageFolder.place")
    def _(place: Any, folder: Any, row: int) -> str:
        options = dataclasses.replace(folder.options, show_values=True)
        return str(place(dataclasses.replace(folder, options=options), row))


@bug("test_a_wrong_set_of_images_is_refused_and_nothing_is_spent")
def an_image_listed_twice(plant: Plant) -> None:
    """One image may be two records."""
    plant.rewrite("image_list", "any_file in seen", "False")
