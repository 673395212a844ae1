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
    """Compares synthetic records with real ones. The figures are not covered by the guarantee.

    The measures are those of `noisegate evaluate`:

    - tables: scores of models that are trained on synthetic records and tested on real ones, and distances of marginals
      (`noisegate_evaluate.evaluate_tables`);
    - images: `noisegate_evaluate.evaluate_images`;
    - linked tables: `noisegate_evaluate.evaluate_linked`.

    Args:
        synthetic: Synthetic records of any kind that `fit` accepts; or a model, which then samples as many records as
            there are real ones.
        test: Held-out real records, which the fit did not use.
        schema: The schema, or the path of its TOML file. None takes the schema of the model.
        train: Real records that the fit used. Models trained on them give the train-on-real score to compare with.
        seed: Seed of the classifiers and of sampling.
        show_values: Whether errors may quote private values.
        progress: Whether to show progress.
        options: Options of the function that measures: see the list above.

    Returns:
        The report with its figures and its verdict.

    Raises:
        UserError: if there is no schema, or the records do not fit it.

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
