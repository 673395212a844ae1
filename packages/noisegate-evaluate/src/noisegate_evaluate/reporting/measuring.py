"""Measures the synthetic records of a model on real ones, for the private page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from noisegate.linked.schema import LinkedSchema
from noisegate.models.synthesizer import Synthesizer
from noisegate.schema import EncodedTable, Schema, decode
from noisegate_evaluate import Report, evaluate_images, evaluate_tables, images_of, read_classifiers
from noisegate_evaluate.comparison import LinkedReport
from noisegate_evaluate.metrics.copies import nearest_images, nearest_records
from noisegate_evaluate.reading import Tables, beside, bring_together
from noisegate_evaluate.reporting.private import Measured
from noisegate_evaluate.reporting.relations import relations
from noisegate_evaluate.utility.runner import Progress

SEED = 0
"""Of what is drawn and trained for a page, so that it is the same whenever it is made."""

_MOST_ROWS, _MOST_IMAGES = 50_000, 5_000
_IMAGES_COMPARED = 2_000

Batches = Sequence[EncodedTable]


def measure(
    model: Synthesizer,
    test: Batches,
    train: Batches | None,
    *,
    records: int,
    classifiers: str | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Returns what as many synthetic records as there are real ones are worth, at most 50,000 rows or 5,000 images."""
    if model.schema.images is not None:
        return _measure_images(model, test, train, min(records, _MOST_IMAGES), classifiers or "cnn", progress)
    schema, drawn = model.schema, min(records, _MOST_ROWS)
    made, held_out, used = (
        None if one is None else decode(EncodedTable.concatenate(list(one)), schema)
        for one in (model.records(drawn, seed=SEED), test, train)
    )
    assert made is not None
    assert held_out is not None
    report = evaluate_tables(
        made, held_out, schema, used, seed=SEED, classifiers=classifiers or "three", progress=progress
    )
    return compared(replace(report, fitted=model.verdict), made, held_out, used, schema)


def _measure_images(
    model: Synthesizer, test: Batches, train: Batches | None, count: int, classifiers: str, progress: Progress | None
) -> Measured:
    schema = model.schema
    made, held_out = images_of(model.records(count, seed=SEED), schema), images_of(test, schema)
    used = None if train is None else images_of(train, schema)
    suite = read_classifiers(classifiers)
    report = evaluate_images(
        made, held_out, schema, used, classifiers=suite, images=_IMAGES_COMPARED, seed=SEED, progress=progress
    )
    return Measured(
        schema=schema,
        report=replace(report, fitted=model.verdict),
        copies=None if used is None else nearest_images(made.pixels, used.pixels, held_out.pixels, seed=SEED),
        counted=(len(made), len(held_out if used is None else used)),
    )


def compared(
    report: Report, synthetic: pa.Table, test: pa.Table, train: pa.Table | None, schema: Schema, *, seed: int = SEED
) -> Measured:
    """Returns an evaluation of tables with what the page shows beside it."""
    real = test if train is None else train
    return Measured(
        schema=schema,
        report=report,
        copies=None if train is None else nearest_records(synthetic, train, test, schema, seed=seed),
        counted=(synthetic.num_rows, real.num_rows),
        synthetic=synthetic,
        real=real,
    )


def compared_linked(
    report: LinkedReport,
    synthetic: Tables,
    test: Tables,
    train: Tables | None,
    schema: LinkedSchema,
    *,
    seed: int = SEED,
) -> Measured:
    """Returns an evaluation of linked tables with what the page shows: parents beside their children, and each link."""
    made, held_out = (bring_together(tables, schema, "given") for tables in (synthetic, test))
    used = None if train is None else bring_together(train, schema, "given")
    (flat, described), (real, _) = beside(made, schema), beside(held_out, schema)
    measured = compared(report, flat, real, None if used is None else beside(used, schema)[0], described, seed=seed)
    return replace(measured, relations=relations(made, used or held_out, schema, report))
