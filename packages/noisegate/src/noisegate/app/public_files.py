"""Reads public text files as they are: their form is found, and drafted as `[file]`."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from noisegate.schema import DEFAULT_MISSING_VALUES, FileForm
from noisegate.schema.parsing import is_text
from noisegate.sources.frames import read_table
from noisegate.sources.tables.csv_file import CsvFile, TextLayout
from noisegate.sources.tables.find_form import find_form
from noisegate.sources.tables.tables import ANY_TEXT, find_files


def find_public_form(public: Any) -> FileForm:
    """Finds out how a public text file is written; of a folder, its first file.

    Args:
        public: A path, or a table in memory.

    Returns:
        The form; that of plain CSV for what is no text file, or where it is not found.

    Raises:
        DataError: if there is no such file.
    """
    if not isinstance(public, str | Path):
        return FileForm()
    first_file = find_files(Path(public), ANY_TEXT)[0]
    if not isinstance(first_file, CsvFile):
        return FileForm()
    return find_form(first_file.path, first_file.packing) or FileForm()


def read_public_table(public: Any, form: FileForm) -> pa.Table:
    """Reads all records of public files, or of a table in memory.

    Args:
        public: A path, or a table in memory.
        form: How its text files are written.

    Returns:
        The columns as they are, but for numbers that the file writes in its own way,
        which become plain ones.

    Raises:
        DataError: if the records cannot be read.
    """
    table = read_table(public, layout=TextLayout(form=form))
    if not form.has_own_numbers:
        return table
    for index, name in enumerate(table.column_names):
        cells = _plain_numbers(table[name].combine_chunks(), form)
        table = table.set_column(index, name, cells)
    return table


def _plain_numbers(cells: pa.Array, form: FileForm) -> pa.Array:
    """Translates a column whose numbers are written as the file's are.

    A column with other numbers, such as days or amounts with a currency, stays.
    """
    if not is_text(cells.type):
        return cells
    markers = pa.array(DEFAULT_MISSING_VALUES)
    if not form.writes_all_numbers(cells, markers):
        return cells
    return form.plain_numbers(cells, markers)
