"""A private table before there is a schema: cells as they stand, with kinds of columns that the caller declares."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.errors import DataError, OptionError, SchemaError, said
from noisegate.gate.discovery.partial import (
    EVERY_OTHER,
    KINDS,
    MOMENT_IN_UTC,
    OPEN_KIND,
    Gap,
    PartialSchema,
    column_of_kind,
    read_partial,
)
from noisegate.schema import Column
from noisegate.schema.columns import Problem, unfit_type
from noisegate.schema.encode import (
    describe_type,
    is_text,
    parse_integers,
    read_cells,
    strip_cells,
)
from noisegate.schema.files import write_toml
from noisegate.schema.values import TEXT_PADDING
from noisegate.sources.headers import check_once, check_same_columns, check_titles
from noisegate.sources.tables.tables import Origin, open_origins, with_location

# Of some records in one column: cells that are not missing, float64, whole steps or text, and how many are.
RawCells: TypeAlias = tuple[npt.NDArray[Any] | pa.Array, int]

_BATCH_ROWS = 32768
_MAX_NAMED = (
    100  # columns that a message names; more make a command line that nobody writes
)
_NO_NAME = re.compile(
    r"[+-]?[0-9.,:/ -]+|\d{4}-\d{2}-\d{2}[T ].*|\S+@\S+\.\S+|true|false|null|n/a|nan",
    re.IGNORECASE,
)
_KINDS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (is_text, "categorical"),
    (pt.is_boolean, "boolean"),
    (pt.is_integer, "integer"),
    (pt.is_floating, "continuous"),
    (pt.is_decimal, "continuous"),
    (pt.is_date, "date"),
)


class RawTable:
    """Private records in files or in memory, as `TableSource` has them; headers are read at once, and no record."""

    def __init__(self, source: str | Path | Any, *, show_values: bool = False) -> None:
        self._show_values = show_values
        self.name, self._origins = open_origins(source)
        headers = [
            (origin.name, [name for name, _ in origin.columns()])
            for origin in self._origins
        ]
        check_same_columns(headers, show_names=show_values or self._origins[0].typed)
        self._types = dict(self._origins[0].columns())
        for name, names in headers:
            check_once(names, name, show_names=show_values or self._origins[0].typed)
        check_titles(self.names, self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order. In text without a header they are a record: see `quotable`."""
        return tuple(self._types)

    @property
    def is_typed(self) -> bool:
        """Whether names and types of columns stand apart from the records, as in Parquet and not in text."""
        return self._origins[0].typed

    def quotable(self, known: Mapping[str, Any]) -> bool:
        """Returns whether a message may quote names: a first line without any ``known`` one may be a record."""
        return (
            self._show_values
            or self.is_typed
            or any(name in known for name in self.names)
        )

    def named_by_a_record(self) -> bool:
        """Returns whether a name is also a value of its column, in the first megabyte of text or the first records."""
        for origin in (origin for origin in self._origins if not origin.typed):
            for name, cells in next(
                iter(origin.batches(self.names, _BATCH_ROWS)), {}
            ).items():
                if (
                    is_text(cells.type)
                    and pc.any(
                        pc.equal(pc.utf8_trim(cells, TEXT_PADDING), name)
                    ).as_py()
                ):
                    return True
        return False

    def described(
        self, kinds: Mapping[str, str], path: Path | None, label: str | None
    ) -> PartialSchema:
        """Returns what is public about every column, in their order; a column without a kind is asked for."""
        columns, label, missing_values = read_partial(path, kinds, label=label)
        # Kinds are given, never taken from the types of the data: a program chooses these by the values, as pandas
        # does for a column of whole numbers in which one record has none.
        # What a file ignores the data may have; what is named on the command line it must.
        stated = [
            name
            for name, column in columns.items()
            if column is not None or name in kinds
        ]
        absent = [name for name in stated if name not in self.names]
        known: dict[str, Column | Gap | None] = {}
        if EVERY_OTHER in kinds:
            kind = kinds[EVERY_OTHER]
            others = [name for name in self.names if name not in columns]
            known = {
                name: column_of_kind(name, kind, missing=name != label)
                for name in others
            }
        known |= columns
        unknown = [name for name in self.names if name not in known]
        if unknown and not self.quotable(known):
            raise OptionError(
                f"{self.name}: none of the {len(self.names)} fields of the first line has a kind. Kinds are not "
                f"guessed from private values: give them as public knowledge, one of {', '.join(KINDS)} each, by "
                f"{said('kinds')}, such as age=integer,sex=categorical. Names are not shown, since the first line of a "
                f"file without a header is a record; {said('show_values')} shows them."
            )
        if absent:
            says = f"{self.name}: column {', '.join(map(repr, absent))} is described but not in the data"
            raise SchemaError(f"{says}; correct the name")
        if unknown:
            named = ", ".join(map(repr, unknown[:_MAX_NAMED]))
            further = (
                f" and {len(unknown) - _MAX_NAMED:,} more"
                if len(unknown) > _MAX_NAMED
                else ""
            )
            kinds_to_add = ",".join(f"{name}=..." for name in unknown[:_MAX_NAMED])
            others_too = f",{EVERY_OTHER}=..." if further else ""
            raise OptionError(
                f"{self.name}: no kind is given for {named}{further}. Kinds are not guessed from private values, nor "
                f'from types that a program chose by them: add {said("kinds")} "{kinds_to_add}{others_too}" with one '
                f"of {', '.join(KINDS)} for each, where {EVERY_OTHER} stands for all others; or fill them into a file "
                f"for {said('columns')}, which `noisegate schema init --names-of` begins."
            )
        return PartialSchema(
            columns={name: known[name] for name in self.names},
            label=label,
            missing_values=missing_values,
        )

    def batches(
        self, gaps: tuple[Gap, ...], missing_values: tuple[str, ...]
    ) -> Iterator[Mapping[str, RawCells]]:
        """Yields the cells of the columns ``gaps`` by name, some thousand records at a time, in constant memory."""
        tokens = pa.array(missing_values, pa.string())
        seen = 0
        for origin in self._origins:
            done = 0
            for arrays in origin.batches([gap.name for gap in gaps], _BATCH_ROWS):
                yield {
                    gap.name: self._cells(gap, arrays[gap.name], tokens, origin, done)
                    for gap in gaps
                }
                done += len(arrays[gaps[0].name])
            seen += done
        if not seen:
            raise DataError(
                f"{self.name}: there are no records, only names of columns; expected at least one record"
            )

    def _cells(
        self, gap: Gap, array: pa.Array, tokens: pa.Array, origin: Origin, done: int
    ) -> RawCells:
        values, present = with_location(
            partial(_read, gap, array, tokens),
            origin,
            done,
            show_values=self._show_values,
        )
        return values, int(np.count_nonzero(~present))


def columns_file(
    path: str | Path, *, label: str | None = None
) -> tuple[str, tuple[str, ...]]:
    """Returns a file of public facts to fill in, and the names of the columns, all of whose kinds are open."""
    # The first line of a text file must hold names: one that looks like a record, such as one of the first records, is
    # refused, and nothing of it is shown.
    table = RawTable(path)
    names = table.names
    if not table.is_typed and (
        any(_NO_NAME.fullmatch(name) for name in names) or table.named_by_a_record()
    ):
        raise DataError(
            f"{table.name}: the first line looks like a record, by a value that is not a name or also occurs below it; "
            "write the names of the columns into the first line"
        )
    if label is not None and label not in names:
        raise SchemaError(
            f"label {label!r} is not a column of {table.name}: {', '.join(names)}"
        )
    head = (
        f"# The columns of {table.name}. Their names are taken as public; no record was copied.\n"
        f"# Fill in each kind, one of: {', '.join(KINDS)}.\n"
        "# What is publicly known of bounds (lower, upper) and levels saves budget, as in\n"
        '# age = { kind = "integer", lower = 0, upper = 120 }.\n\n'
    )
    top = write_toml({"label": label}) + "\n" if label is not None else ""
    lines = write_toml({name: {"kind": OPEN_KIND} for name in names})
    return f"{head}{top}[columns]\n{lines}", names


def _read(
    gap: Gap, array: pa.Array, tokens: pa.Array
) -> tuple[npt.NDArray[Any] | pa.Array, npt.NDArray[np.bool_]]:
    values, present = (
        read_cells(gap.reader, array, tokens)
        if gap.numeric
        else _texts(gap, array, tokens)
    )
    if not gap.missing and not present.all():
        raise Problem(
            int(np.argmin(present)),
            f"column {gap.name!r}: the value is missing, and none may be, as it is the label or missing = false is "
            f"stated; fill it in, leave the record out, or state missing = true for it in a file for {said('columns')}",
        )
    return values, present


def _texts(
    gap: Gap, array: pa.Array, tokens: pa.Array
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    array, present = strip_cells(array, tokens)
    if pt.is_floating(array.type):
        array, present = _whole_numbers(gap, array, present)
    if pt.is_integer(array.type):
        array, present = strip_cells(array.cast(pa.string()), tokens)
    if pt.is_null(array.type):
        array = array.cast(pa.string())
    if not is_text(array.type):
        raise unfit_type(gap.reader, describe_type(array.type))
    return array if present.all() else pc.filter(array, pa.array(present)), present


def _whole_numbers(
    gap: Gap, array: pa.Array, present: npt.NDArray[np.bool_]
) -> tuple[pa.Array, Any]:
    """Returns levels that are numbers as whole ones: a program writes them as 1.0 as soon as one record has none.

    Raises:
        Problem: at the first number that is not whole, which names no level.
    """
    whole = parse_integers(array.fill_null(np.nan))
    if whole.is_bad.any():
        raise Problem(
            int(np.argmax(whole.is_bad)),
            f"column {gap.name!r}: expected levels that are text or whole numbers, found a number with a "
            "fraction; give it the kind continuous, or write its levels as text",
        )
    return pa.array(whole.numbers, mask=whole.is_missing), present & ~whole.is_missing


def raw_kind_of(kind: pa.DataType) -> str | None:
    """Returns the kind of column that an Arrow type says; None for a type that stands for none."""
    kind = kind.value_type if pt.is_dictionary(kind) else kind
    if pt.is_timestamp(kind):
        return "datetime" if kind.tz is None else MOMENT_IN_UTC
    return next((name for fits, name in _KINDS if fits(kind)), None)
