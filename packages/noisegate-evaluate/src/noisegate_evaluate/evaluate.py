"""The verb `evaluate`: how synthetic records of any kind compare with real ones, in one call."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisegate.errors import OptionError
from noisegate.models.linked.model import LinkedModel
from noisegate.models.synthesizer import Synthesizer
from noisegate.progress import shown
from noisegate.schema import Schema
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.schema.schema import read_schema
from noisegate_evaluate.comparison import ImageReport, Report
from noisegate_evaluate.evaluation import evaluation_of
from noisegate_evaluate.reporting.private import Sides
from noisegate_evaluate.utility.runner import Progress


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
    if isinstance(schema, str | Path):
        schema = read_schema(schema)
    if schema is None and isinstance(synthetic, Synthesizer | LinkedModel):
        schema = synthetic.schema
    is_single_table = isinstance(schema, Schema) and schema.images is None
    if "by" in options and not is_single_table:
        raise OptionError(f"by={options['by']!r}: groups are those of a single table.")
    if not isinstance(schema, Schema | LinkedSchema):
        raise OptionError(
            "schema=None: give the schema of the records, or the model that made them "
            "as synthetic=."
        )
    evaluation = evaluation_of(schema, show_values=show_values)
    train_records = None if train is None else evaluation.read(train, "training")
    test_records = evaluation.read(test, "test")
    sides: Sides[Any] = Sides(synthetic=None, test=test_records, train=train_records)
    fitted = None
    is_linked_model = isinstance(schema, LinkedSchema) and hasattr(synthetic, "sample")
    if is_linked_model or isinstance(synthetic, Synthesizer):
        count = evaluation.count(sides.real)
        synthetic_records = evaluation.draw(synthetic, count, seed)
        fitted = getattr(synthetic, "verdict", None)
    else:
        synthetic_records = evaluation.read(synthetic, "")
    sides = replace(sides, synthetic=synthetic_records)
    with _progress_line(is_shown=progress) as update:
        report = evaluation.measure(sides, seed=seed, progress=update, **options)
    return replace(report, fitted=fitted)


@contextmanager
def _progress_line(*, is_shown: bool) -> Iterator[Progress | None]:
    """Shows a line of progress; yields what is called after each training, if any."""
    if not is_shown:
        yield None
        return
    with shown("Evaluating", None) as tell:
        yield lambda name, done, total: tell(done, f"{done} of {total}: {name}")
