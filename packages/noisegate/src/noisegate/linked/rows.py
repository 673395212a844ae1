"""The rows of one link of linked tables, as records that count in part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from noisegate.data.tables.parts import Part
from noisegate.errors import DataError
from noisegate.linked.schema import Link, LinkedSchema
from noisegate.linked.source import LinkedSource
from noisegate.records import WeightedRows
from noisegate.schema import Schema


@dataclass(frozen=True, kw_only=True)
class LinkRows:
    """The transitions of one link, for an engine that sums; or those of the parents in one of several shares."""

    tables: LinkedSource
    of: Link
    share: tuple[int, int] | None = None
    in_parts: ClassVar[bool] = True

    @property
    def schema(self) -> Schema:
        """What describes the rows."""
        return self.of.schema

    @property
    def name(self) -> str:
        """What messages call the tables."""
        return self.tables.name

    def unread(self) -> Iterator[Callable[[], WeightedRows]]:
        """Yields a function for each batch, which returns it."""
        with nullcontext() if self.share is None else self.tables:
            for found in self.tables.transitions(self.of, share=self.share):
                yield partial(WeightedRows, found.rows.numeric, found.rows.codes, found.weights)

    def parts(self, size: int, shares: int) -> Iterator[Part]:
        """Yields so many shares of the parents: whoever has one reads all tables, and counts the families in it."""
        self.tables.check()
        tables = self.tables.apart()
        stamps = tables.stamps()
        for number in range(shares):
            yield Part(LinkRows(tables=tables, of=self.of, share=(number, shares)), stamps)

    def no_records(self) -> DataError:
        """Returns the error of tables that hold no record."""
        return self.tables.no_records()


@dataclass(kw_only=True)
class LinkedRecords:
    """Linked tables as a gate holds them: the rows of each link by the name of its child's table."""

    tables: LinkedSource
    witness: Any = None
    in_parts: ClassVar[bool] = True

    @property
    def schema(self) -> Schema:
        """Of the table whose records are the units."""
        return self.tables.schema.root.schema

    @property
    def name(self) -> str:
        """What messages call the tables."""
        return self.tables.name

    @property
    def links(self) -> tuple[str, ...]:
        """Each link, by the name of its child's table."""
        return tuple(link.name for link in self.tables.schema.links)

    def check(self) -> None:
        """Checks names and types of the columns of all tables; no record is read."""
        self.tables.check()

    def check_parts(self) -> None:
        """Refuses tables in memory, which nobody else can read."""
        self.tables.check_parts()

    def link(self, name: str) -> LinkRows:
        """Returns the rows of the link to the table called `name`."""
        return LinkRows(tables=self.tables, of=next(link for link in self.tables.schema.links if link.name == name))


def open_linked(
    data: Any, schema: LinkedSchema, *, show_values: bool, progress: Callable[[int], None] | None
) -> LinkedRecords:
    """Returns linked tables as a gate holds them; nothing is read yet."""
    return LinkedRecords(tables=LinkedSource(data, schema, show_values=show_values, progress=progress))
