"""How records of one kind are evaluated: read, drawn from a model, measured, and shown.

`noisegate.evaluate`, `noisegate evaluate` and the private page of `noisegate report`
all go one way::

    records ──Evaluation.read──► Sides ──Evaluation.measure──► Report
    a model ──Evaluation.draw──►   │                             │
                                   └──Evaluation.page────────────┴──► PrivatePage

There is an evaluation of tables, of linked tables and of images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from noisegate.models.linked.model import LinkedModel
from noisegate.models.synthesizer import Synthesizer
from noisegate.records import Images
from noisegate.schema import EncodedTable, Schema, decode
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.sources.frames import read_known_records, read_linked, read_table
from noisegate.sources.sources import open_source
from noisegate_evaluate.comparison import ImageReport, Report
from noisegate_evaluate.images import images_of
from noisegate_evaluate.measures import (
    evaluate_images,
    evaluate_linked,
    evaluate_tables,
)
from noisegate_evaluate.reporting.private import (
    PrivatePage,
    Sides,
    page_of_images,
    page_of_linked,
    page_of_table,
)

# Images of either set between which distances are measured for a page.
IMAGES_OF_PAGE = 2_000


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How records of one kind are evaluated; a record of functions.

    Attributes:
        schema: What the records fit.
        read: Reads records: a path, or records in memory. The second argument is what
            notes call real records, "test" or "training"; empty for synthetic ones.
        draw: Draws so many records from a model, by a seed; of linked tables, families.
        count: Returns the number of records; of linked tables, of families.
        measure_sides: Measures the synthetic, the test and the training records, which
            may be None, and takes the schema as the third argument: one of
            `evaluate_tables`, `evaluate_linked` and `evaluate_images`.
        page: Returns what a private page shows of a report and its sides, by a seed of
            what is drawn for it.
        max_drawn: How many records of a model a private page compares at most.
        notes: What was unusual about the records that were read, in words.
    """

    schema: Schema | LinkedSchema
    read: Callable[[Any, str], Any]
    draw: Callable[[Any, int, int], Any]
    count: Callable[[Any], int]
    measure_sides: Callable[..., Any]
    page: Callable[..., PrivatePage]
    max_drawn: int
    notes: list[str] = field(default_factory=list)

    def measure(self, sides: Sides[Any], **options: Any) -> Report | ImageReport:
        """Returns the figures of synthetic records against real ones.

        Args:
            sides: The records.
            options: Those of `evaluate_tables`, `evaluate_linked` or `evaluate_images`.
        """
        report = self.measure_sides(
            sides.synthetic, sides.test, self.schema, sides.train, **options
        )
        measured: Report | ImageReport = replace(
            report, notes=(*report.notes, *self.notes)
        )
        return measured


def table_evaluation(schema: Schema, *, show_values: bool = False) -> Evaluation:
    """Returns the evaluation of one table.

    Args:
        schema: What the records fit. Real ones with an unknown level are left out.
        show_values: Whether messages may quote values.
    """
    notes: list[str] = []

    def read(records: Any, real_name: str) -> pa.Table:
        if not real_name or schema.images is not None:
            return read_table(records, schema, show_values=show_values)
        table, unknown_count = read_known_records(
            records, schema, show_values=show_values
        )
        if unknown_count:
            notes.append(
                f"{unknown_count:,} {real_name} records have a level that is not in "
                "the schema, and are left out"
            )
        return table

    def draw(model: Synthesizer, count: int, seed: int) -> pa.Table:
        drawn = EncodedTable.concatenate(list(model.records(count, seed=seed)))
        return decode(drawn, schema)

    return Evaluation(
        schema=schema,
        read=read,
        draw=draw,
        count=len,
        measure_sides=evaluate_tables,
        page=partial(page_of_table, schema=schema),
        max_drawn=50_000,
        notes=notes,
    )


def linked_evaluation(schema: LinkedSchema) -> Evaluation:
    """Returns the evaluation of linked tables, which are given by name, or as a folder.

    Args:
        schema: What the tables fit; an unknown level counts as a cell of its own.
    """

    def read(records: Any, real_name: str) -> Mapping[str, pa.Table]:
        return read_linked(records, schema)

    def draw(model: Any, count: int, seed: int) -> Mapping[str, pa.Table]:
        if isinstance(model, LinkedModel):
            model = replace(model, convert=None)
        return read(model.sample(count, seed=seed), "")

    return Evaluation(
        schema=schema,
        read=read,
        draw=draw,
        count=lambda tables: len(tables[schema.root.name]),
        measure_sides=evaluate_linked,
        page=partial(page_of_linked, schema=schema),
        max_drawn=20_000,
    )


def image_evaluation(schema: Schema, **options: Any) -> Evaluation:
    """Returns the evaluation of images.

    Args:
        schema: What the images fit.
        options: Of the reader: `show_values`, whether messages may quote values; and
            `on_error`, "refuse" or "skip" for pictures that cannot be used.
    """

    def read(records: Any, real_name: str) -> Images:
        return images_of(open_source(records, schema, **options).batches(), schema)

    def draw(model: Synthesizer, count: int, seed: int) -> Images:
        return images_of(model.records(count, seed=seed), schema)

    return Evaluation(
        schema=schema,
        read=read,
        draw=draw,
        count=len,
        measure_sides=evaluate_images,
        page=page_of_images,
        max_drawn=5_000,
    )


def evaluation_of(
    schema: Schema | LinkedSchema, *, show_values: bool = False
) -> Evaluation:
    """Returns the evaluation of the records that a schema describes.

    Args:
        schema: The schema.
        show_values: Whether messages may quote values.
    """
    if isinstance(schema, LinkedSchema):
        return linked_evaluation(schema)
    if schema.images is not None:
        return image_evaluation(schema, show_values=show_values)
    return table_evaluation(schema, show_values=show_values)
