"""Files of SPSS, Stata and SAS, whose codes may have labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from noisegate.errors import DataError, require
from noisegate.schema.checks import TEXT_PADDING
from noisegate.sources.stores import in_store, open_file, unreadable_error
from noisegate.sources.tables.cells import number_texts, value_text
from noisegate.sources.tables.parts import NumberedFile

_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
# To continue behind some records, the library passes over all before them, so that many
# small steps would take long.
_ROWS_READ_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class StatisticsFile(NumberedFile):
    """A file of SPSS, Stata or SAS.

    All values come as text, which the schema reads: numbers as they are stored, days
    and times in ISO's notation. Of a column whose codes
    have labels come the labels, where the levels of the schema are labels; else the
    codes. A value that its owner declared missing is missing.

    Attributes:
        path: The file.
        layout: What the schema says of the table.
        has_types: True: names stand apart from records, and somebody chose them.
    """

    has_types = True
    declares_types = False

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns the names of the columns, each with the type string."""
        header, _ = self._read(metadataonly=True)
        return [(_plain_name(name), pa.string()) for name in header]

    def estimate_record_count(self) -> int | None:
        """Returns the number of records that the dictionary states; None for none."""
        _, metadata = self._read(metadataonly=True)
        count = metadata.number_rows
        return count if isinstance(count, int) and count >= 0 else None

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns, at most `rows` records at a time.

        Args:
            names: The columns.
            rows: The most records of a batch.

        Raises:
            DataError: if the file is damaged.
        """
        header, metadata = self._read(metadataonly=True)
        labels = self._labels_by_column(metadata)
        native_name_of = {_plain_name(name): name for name in header}
        native_names = [native_name_of[name] for name in names]
        offset = 0
        while True:
            values, _ = self._read(
                usecols=native_names, row_offset=offset, row_limit=_ROWS_READ_AT_ONCE
            )
            columns = {
                name: _to_arrow(
                    values[native_name_of[name]], labels.get(native_name_of[name])
                )
                for name in names
            }
            row_count = len(next(iter(columns.values())))
            for start in range(0, row_count, rows):
                yield {
                    name: cells.slice(start, rows) for name, cells in columns.items()
                }
            if row_count < _ROWS_READ_AT_ONCE:
                return
            offset += row_count

    def _read(self, **options: Any) -> tuple[Mapping[str, Sequence[Any]], Any]:
        """Reads columns of the file, and its dictionary.

        Args:
            options: As the functions of pyreadstat take them.

        Returns:
            The values of each column, by its name, and what pyreadstat calls metadata.

        Raises:
            MissingExtraError: if pyreadstat is not installed.
            DataError: if the file cannot be read.
        """
        require("pyreadstat", f"{self.name}, a file of SPSS, Stata or SAS,")
        import pyreadstat

        read = getattr(pyreadstat, _READERS[self.path.suffix.lower()])
        try:
            if not in_store(self.path):
                columns, metadata = read(
                    str(self.path), output_format="dict", **options
                )
                return columns, metadata
            with open_file(self.path) as file:
                columns, metadata = read(file, output_format="dict", **options)
                return columns, metadata
        except OSError as error:
            raise unreadable_error(self.path, error) from None
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception:
            # The library has several classes of errors, which may quote a value.
            pass
        raise DataError(
            f"{self.name}: cannot be read; it is encrypted, cut off or damaged: write "
            "or copy it again"
        )

    def _labels_by_column(self, metadata: Any) -> dict[str, dict[Any, str]]:
        """Returns the labels of codes, of columns whose levels in the schema are those.

        They are if not all levels are codes, and some are labels.
        """
        levels_of = dict(self.layout.text_levels)
        labels_by_column = {}
        for name, labels in metadata.variable_value_labels.items():
            levels = set(levels_of.get(_plain_name(name), ()))
            texts = {code: label.strip(TEXT_PADDING) for code, label in labels.items()}
            codes = {value_text(code) for code in texts}
            if not levels <= codes and not levels.isdisjoint(texts.values()):
                labels_by_column[name] = texts
        return labels_by_column


def _plain_name(name: str) -> str:
    """Returns the name of a column without blanks around it."""
    return name.strip(TEXT_PADDING)


def _to_arrow(values: Sequence[Any], labels: Mapping[Any, str] | None) -> pa.Array:
    """Converts a column to text, each value by itself.

    Args:
        values: Numbers, texts, days or times; None or NaN where missing.
        labels: The label of each code; None for no labels.
    """
    if labels is not None:
        return pa.array(
            [labels.get(value) or value_text(value) for value in values], pa.string()
        )
    are_numbers = all(value is None or type(value) is float for value in values)
    if are_numbers:
        return number_texts(pa.array(values, pa.float64(), from_pandas=True))
    return pa.array([value_text(value) for value in values], pa.string())
