"""How synthetic records of any kind compare with real ones, in one call."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from noisegate.errors import OptionError
from noisegate.progress import shown
from noisegate.schema import EncodedTable, Schema, decode
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.schema.schema import read_schema
from noisegate_evaluate import ImageReport, LinkedReport, Report


def evaluate(
    synthetic: Any,
    test: Any,
    *,
    schema: Schema | LinkedSchema | str | Path | None = None,
    train: Any = None,
    seed: int = 0,
    show_values: bool = False,
    progress: bool = False,
    **options: Any,
) -> Report | ImageReport:
    """Returns how synthetic records compare with real ones; the figures are not covered by the guarantee.

    What `noisegate evaluate` measures: scores of models that are trained on synthetic and tested on real records, and
    distances of marginals; with a schema of images those of `noisegate_evaluate.evaluate_images`, with one of linked
    tables those of `noisegate_evaluate.evaluate_linked`.

    Synthetic records are of any kind that `fit` takes; or the model itself, which then draws as many as there are real
    ones. The fit did not use the records ``test``, and did use ``train``, which gives the ceiling to compare with. The
    ``schema``, or the path of its TOML file, is by default that of the model. The ``seed`` is of classifiers and draws;
    with ``show_values`` errors may quote private values. Options are those of `noisegate_evaluate.evaluate_tables`, or
    of the others.

    Raises:
        UserError: if there is no schema, or records that do not fit it.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, evaluate, synthesize
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
        >>> table = pa.table({"age": [31, 58, 44, 67] * 50, "ill": [False, True, False, True] * 50})
        >>> report = evaluate(synthesize(table, schema=schema, epsilon=1.0), table)
        >>> report.compared_with, report.verdict.word in ("good", "usable", "rough", "noise")
        ('test', True)
    """
    from noisegate.models.linked.model import LinkedModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.sources.frames import read_known_records, read_table
    from noisegate.sources.sources import open_source
    from noisegate_evaluate import evaluate_images, evaluate_tables, images_of

    made = synthetic if isinstance(synthetic, Synthesizer) else None
    if isinstance(schema, str | Path):
        schema = read_schema(schema)
    schema = schema or (
        synthetic.schema if isinstance(synthetic, Synthesizer | LinkedModel) else None
    )
    is_single_table = isinstance(schema, Schema) and schema.images is None
    if "by" in options and not is_single_table:
        raise OptionError(f"by={options['by']!r}: groups are those of a single table.")
    if isinstance(schema, LinkedSchema):
        with _told(progress) as progressing:
            return _evaluate_linked(
                synthetic,
                test,
                schema,
                train,
                seed=seed,
                progress=progressing,
                **options,
            )
    if not isinstance(schema, Schema):
        raise OptionError(
            "schema=None: give the schema of the records, or the model that made them as synthetic=."
        )
    known = schema

    unknown: dict[str, int] = {}

    def read(records: Any, real: str = "") -> Any:
        """Reads records; of ``real`` ones, those with levels of the schema alone."""
        if known.images is not None:
            source = open_source(records, known, show_values=show_values)
            return images_of(source.batches(), known)
        if not real:
            return read_table(records, known, show_values=show_values)
        table, unknown[real] = read_known_records(
            records, known, show_values=show_values
        )
        return table

    used = None if train is None else read(train, "training")
    real = read(test, "test")
    if made is not None:
        records = made.records(len(real if used is None else used), seed=seed)
        drawn = (
            images_of(records, known)
            if known.images
            else decode(EncodedTable.concatenate(list(records)), known)
        )
    else:
        drawn = read(synthetic)
    measure: Any = evaluate_tables if known.images is None else evaluate_images
    with _told(progress) as told:
        report = measure(drawn, real, known, used, seed=seed, progress=told, **options)
    return cast(
        "Report | ImageReport",
        replace(
            report,
            fitted=None if made is None else made.verdict,
            notes=(*report.notes, *notes_of_unknown(unknown)),
        ),
    )


def notes_of_unknown(counts: Mapping[str, int]) -> Iterator[str]:
    """Yields a note on real records that were left out for a level that is not in the schema.

    Examples:
        >>> from noisegate_evaluate.evaluate import notes_of_unknown
        >>> list(notes_of_unknown({"test": 3, "training": 0}))
        ['3 test records have a level that is not in the schema, and are left out']
    """
    for name, count in counts.items():
        if count:
            yield f"{count:,} {name} records have a level that is not in the schema, and are left out"


def _evaluate_linked(
    synthetic: Any, test: Any, schema: LinkedSchema, train: Any, **options: Any
) -> LinkedReport:
    """Returns how linked tables compare, folders or mappings; a model draws as many families as there are real ones."""
    from noisegate.sources.frames import read_linked
    from noisegate_evaluate import evaluate_linked

    real, used = (
        read_linked(test, schema),
        None if train is None else read_linked(train, schema),
    )
    fitted = getattr(synthetic, "verdict", None)
    if hasattr(synthetic, "sample"):
        synthetic = synthetic.sample(
            len((used or real)[schema.root.name]), seed=options["seed"]
        )
    return replace(
        evaluate_linked(read_linked(synthetic, schema), real, schema, used, **options),
        fitted=fitted,
    )


@contextmanager
def _told(progress: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    with shown("Evaluating", None) if progress else nullcontext() as tell:
        yield (
            (lambda name, done, total: tell(done, f"{done} of {total}: {name}"))
            if tell
            else None
        )
