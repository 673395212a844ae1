"""The evaluation of synthetic records against real ones: of tables, of linked tables and of images."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.answers.findings import questions_of_linked, questions_of_table
from noisegate.records import Images
from noisegate.schema import Schema
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed
from noisegate_evaluate.comparison import ImageReport, LinkedReport, Report
from noisegate_evaluate.group_scores import group_scores
from noisegate_evaluate.images import (
    IMAGES,
    EncoderFeatures,
    ImageFeatures,
    check_images,
    find_pixels,
    image_distances,
    image_form,
)
from noisegate_evaluate.metrics.groups import group_figures
from noisegate_evaluate.metrics.links import LinkDistances, link_distances
from noisegate_evaluate.metrics.marginals import marginal_distances
from noisegate_evaluate.metrics.missing import MissingTogether
from noisegate_evaluate.metrics.result import MetricResult, metrics_of
from noisegate_evaluate.reading import (
    LinkedTables,
    Tables,
    beside,
    bring_together,
    with_coordinates,
)
from noisegate_evaluate.tables import (
    REGRESSORS,
    downstream_scores,
    regression_scores,
    unscorable,
)
from noisegate_evaluate.utility.networks import NetworkOptions
from noisegate_evaluate.utility.recipe import LabelledRows, Suite
from noisegate_evaluate.utility.runner import Progress, UtilityReport, utility_scores
from noisegate_evaluate.utility.suites import read_classifiers, read_suite

BINS = 10  # equal-width bins of numeric columns in figures of links: tables of two columns of few rows have few cells


def evaluate_tables(
    synthetic: pa.Table,
    test: pa.Table,
    schema: Schema,
    train: pa.Table | None = None,
    seed: int = 0,
    classifiers: str | Suite = "three",
    networks: NetworkOptions | None = None,
    jobs: int | None = None,
    by: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compares a synthetic table with real data. The figures are not covered by the guarantee.

    Args:
        synthetic: The synthetic table.
        test: Held-out real records, which the fit did not use.
        schema: The schema of the tables.
        train: Real records that the fit used. With them, distances are to these records, and the report has
            train-on-real scores and a sampling baseline of the distances.
        seed: Seed of the models and of the draw of 3-way marginals.
        classifiers: "three", or the "twelve" of DP-MERF and DP-HP; for tables of pixels "networks", or some of them
            separated by commas, such as "convnet,mlp"; or a suite. A numeric label is predicted by regressors instead.
        networks: Options of the networks; None for the defaults.
        jobs: Number of processes for "twelve" and for networks; by default the number of usable cores.
        by: A categorical, ordinal or boolean column. Figures are also computed in each of its groups; with `train`,
            also the scores of a model.
        progress: Called after each classifier with its name, the number of classifiers done, and the number of all.

    Returns:
        The report with its figures and its verdict.

    Raises:
        DataError: a table has no rows or lacks a column.
        OptionError: ``classifiers`` is not one of these values, ``jobs`` is below 1, or the columns are not pixels of
            images.
        MissingExtraError: a classifier needs a package that is not installed.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    questions = questions_of_table(schema)
    if by is not None:
        questions = (*questions, "groups")
    # The columns that relations compute are compared too.
    real = test if train is None else train
    (synthetic, test, real), schema = with_coordinates([synthetic, test, real], schema)
    train = None if train is None else real
    if isinstance(classifiers, str):
        classifiers = read_suite(classifiers, networks)
    if classifiers.name == "networks":
        find_pixels(schema, networks.image if networks else None)

    def metrics(first: pa.Table, second: pa.Table) -> dict[str, MetricResult | None]:
        return {
            kind.METRIC: kind.measured(first, second, schema=schema, seed=seed)
            for kind in metrics_of("tables")
        }

    label = schema.label_column
    is_regression = label is not None and label.numeric

    def scores_of(table: pa.Table, progress: Progress | None) -> Any:
        if is_regression:
            return regression_scores(table, test, schema, seed=seed, progress=progress)
        return downstream_scores(
            table,
            test,
            schema,
            seed=seed,
            classifiers=classifiers,
            networks=networks,
            jobs=jobs,
            progress=progress,
        )

    scores, ceiling, notes = _scores(
        synthetic,
        train,
        "table",
        refusal=unscorable(test, schema, regress=is_regression),
        count=REGRESSORS if is_regression else classifiers.count,
        scores_of=scores_of,
        progress=progress,
    )
    groups = None
    if by is not None:
        by_group = None
        if train is not None:
            by_group = group_scores(synthetic, test, train, schema, by, seed=seed)
        groups = group_figures(synthetic, real, schema, by, scores=by_group, seed=seed)
        notes = (*notes, *groups.notes)
    floor = None
    if train is not None:
        floor = marginal_distances(train, test, schema, seed=seed)
    return Report(
        compared_with="test" if train is None else "train",
        downstream=None if is_regression else scores,
        ceiling=None if is_regression else ceiling,
        regression=scores if is_regression else None,
        regression_ceiling=ceiling if is_regression else None,
        notes=notes,
        marginals=marginal_distances(synthetic, real, schema, seed=seed),
        floor=floor,
        metrics=metrics(synthetic, real),
        groups=groups,
        metrics_floor={} if train is None else metrics(train, test),
        questions=questions,
    )


def evaluate_images(
    synthetic: Images,
    test: Images,
    schema: Schema,
    train: Images | None = None,
    *,
    classifiers: Suite | None = None,
    features: ImageFeatures | None = None,
    images: int = IMAGES,
    seed: int = 0,
    progress: Progress | None = None,
) -> ImageReport:
    """Compares synthetic images with real ones. The figures are not covered by the guarantee.

    Args:
        synthetic: The synthetic images.
        test: Held-out real images, which the fit did not use.
        schema: The schema of the images.
        train: Real images that the fit used. With them, distances are to these images, and the report has train-on-real
            scores and a sampling baseline.
        classifiers: See `noisegate_evaluate.read_classifiers`; None for the CNN.
        features: Features in which distances are computed; None for the encoder in the package.
        images: Largest number of images of each set in the distances.
        seed: Public seed of classifiers and draws.
        progress: Called after each epoch and each training, with the name of the training, the number of trainings done
            and the total number, both including those on real images.

    Returns:
        The report with its figures and its verdict.

    Raises:
        SchemaError: the schema is not one of images.
        DataError: a set is empty or does not have the form of the schema.
        ModelError: the encoder in the package cannot be read.
        MissingExtraError: a classifier needs a package that is not installed.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    form = image_form(schema)
    suite = classifiers or read_classifiers("cnn")
    for name, several in (("synthetic", synthetic), ("test", test), ("train", train)):
        if several is not None:
            check_images(several, name, form)
    suite.check_installed()
    space = features or EncoderFeatures()
    real = test if train is None else train
    distances = image_distances(synthetic, real, space, images=images, seed=seed)
    floor = None
    if train is not None:
        floor = image_distances(train, test, space, images=images, seed=seed)

    def labelled(several: Images) -> LabelledRows:
        return LabelledRows(features=several.pixels, labels=several.codes[:, 0])

    def scores_of(several: Images, progress: Progress | None) -> UtilityReport:
        return utility_scores(
            suite,
            labelled(several),
            labelled(test),
            classes=len(form.labels),
            seed=seed,
            jobs=1,
            progress=progress,
        )

    refusal = ""
    if test.labels is None:
        refusal = "the images have no labels"
    else:
        class_count = len(np.unique(test.labels))
        if class_count < 2:
            refusal = (
                f"the test images have {class_count} class(es); scores need at least 2"
            )
    scores, ceiling, notes = _scores(
        synthetic,
        train,
        "images",
        refusal=refusal,
        count=suite.count,
        scores_of=scores_of,
        progress=progress,
    )
    return ImageReport(
        compared_with="test" if train is None else "train",
        downstream=scores,
        ceiling=ceiling,
        notes=notes,
        distances=distances,
        floor=floor,
    )


def evaluate_linked(
    synthetic: Tables,
    test: Tables,
    schema: LinkedSchema,
    train: Tables | None = None,
    *,
    seed: int = 0,
    classifiers: str | Suite = "three",
    bins: int = BINS,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> LinkedReport:
    """Compares synthetic linked tables with real ones. The figures are not covered by the guarantee.

    Models predict the label of the first table. They are trained on its columns and on a summary of the children of
    each record: their number, the mean and the last value of each numeric column, and the share of each level.

    Args:
        synthetic: The synthetic tables, by name.
        test: Held-out real tables, by name. The fit did not use their parents.
        schema: The schema of the linked tables.
        train: Real tables that the fit used, by name; as for `evaluate_tables`.
        seed: As for `evaluate_tables`.
        classifiers: As for `evaluate_tables`.
        bins: Number of equal-width bins of each numeric or date column in the figures of links.
        jobs: As for `evaluate_tables`.
        progress: As for `evaluate_tables`.

    Returns:
        The report with its figures and its verdict.

    Raises:
        DataError: the table of the parents has no rows, a table lacks a column, or a table is missing.
        OptionError: ``classifiers`` is not one of the allowed values, or ``jobs`` is below 1.
        MissingExtraError: a classifier needs a package that is not installed.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate_evaluate import evaluate_linked
        >>> from noisegate.schema import Integer, Schema
        >>> from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
        >>> people = LinkedTable(name="people", key="id", schema=Schema([Integer(name="age", lower=0, upper=99)]))
        >>> pain = Schema([Integer(name="pain", lower=0, upper=9)])
        >>> schema = LinkedSchema([people, LinkedTable(name="visits", schema=pain, parent="people", most=5)])
        >>> tables = {"people": pa.table({"id": [1, 2], "age": [40, 50]}),
        ...           "visits": pa.table({"id": [1, 1, 2], "pain": [3, 4, 8]})}
        >>> evaluate_linked(tables, tables, schema).links["visits"].transitions.mean
        0.0
    """
    linked_synthetic = bring_together(synthetic, schema, "synthetic")
    linked_test = bring_together(test, schema, "test")
    linked_real = linked_test
    train_parents = None
    if train is not None:
        linked_real = bring_together(train, schema, "training")
        train_parents, _ = beside(linked_real, schema)
    synthetic_parents, _ = beside(linked_synthetic, schema)
    test_parents, parent_schema = beside(linked_test, schema)
    of_parents = evaluate_tables(
        synthetic_parents,
        test_parents,
        parent_schema,
        train_parents,
        seed=seed,
        classifiers=classifiers,
        jobs=jobs,
        progress=progress,
    )
    real = linked_real.tables

    def distances(
        first: LinkedTables, second: LinkedTables
    ) -> dict[str, LinkDistances]:
        return {
            link.name: link_distances(first, second, link, bins=bins)
            for link in schema.links
        }

    missing = {
        table.name: MissingTogether.measured(
            synthetic[table.name], real[table.name], schema=table.schema, seed=seed
        )
        for table in schema.tables
    }
    parent_figures = {
        field.name: getattr(of_parents, field.name) for field in fields(of_parents)
    }
    return LinkedReport(
        **parent_figures | {"questions": questions_of_linked(schema)},
        missing={name: found for name, found in missing.items() if found is not None},
        tables={
            table.name: marginal_distances(
                synthetic[table.name], real[table.name], table.schema, seed=seed
            )
            for table in schema.tables
            if len(synthetic[table.name]) and len(real[table.name])
        },
        links=distances(linked_synthetic, linked_real),
        links_floor=None if train is None else distances(linked_real, linked_test),
    )


def _scores(
    synthetic: Any,
    train: Any,
    kind: str,
    *,
    refusal: str,
    count: int,
    scores_of: Callable[[Any, Progress | None], Any],
    progress: Progress | None,
) -> tuple[Any, Any, tuple[str, ...]]:
    """Scores models of synthetic records, and of real ones as the ceiling.

    Args:
        synthetic: Synthetic records.
        train: Real training records; None where they are not at hand.
        kind: What notes call a set of them.
        refusal: Why nothing can be scored; empty where it can.
        count: Number of models of one set.
        scores_of: Trains on a set, and returns the scores.
        progress: Called after each model.

    Returns:
        The scores, those of real records, and notes; None where there are none.
    """
    if refusal:
        return None, None, (f"no downstream scores, because {refusal}",)
    total = count if train is None else 2 * count

    def counted(done_before: int) -> Progress | None:
        """Counts on from the models of an earlier set."""
        if progress is None:
            return None
        return lambda name, done, _: progress(name, done_before + done, total)

    reports = {"synthetic": scores_of(synthetic, counted(0))}
    if train is not None:
        reports["real"] = scores_of(train, counted(count))
    notes = tuple(
        f"trained on the {name} {kind}: {note}"
        for name, report in reports.items()
        for note in report.notes
    )
    return reports["synthetic"], reports.get("real"), notes
