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
from noisegate_evaluate.metrics.groups import Groups, group_figures
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
    RegressionReport,
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
    """Returns how a synthetic table compares with real data; its figures are not covered by the guarantee.

    The ``synthetic`` table was not made from the records ``test``. From those of ``train`` it was: given, distances are
    to them, and the report has the ceiling of the scores and the floor of the distances. The ``seed`` is of the models
    and of the draw of 3-way marginals. Of ``classifiers`` there are "three", or the "twelve" of the papers; for tables
    of pixels "networks", or some of them separated by commas, as in "convnet,mlp"; or a suite. A numeric label is
    predicted by regressors instead. With a column of levels as ``by``, figures are also measured in each of its groups,
    and with ``train`` the scores of a model too. ``jobs`` are processes for "twelve" and networks, by default the cores
    that may be used; ``progress`` is told after each classifier: its name, how many are done, and how many there will
    be.

    Raises:
        DataError: a table has no rows or lacks a column.
        OptionError: ``classifiers`` is no such choice, ``jobs`` is below 1, or the columns are no images.
        MissingExtraError: a classifier needs a package that is not installed.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    questions = questions_of_table(schema)
    if by is not None:
        questions = (*questions, "groups")
    given_tables = [table for table in (synthetic, test, train) if table is not None]
    tables, schema = with_coordinates(given_tables, schema)
    synthetic, test = tables[:2]
    train = None if train is None else tables[2]
    suite = (
        read_suite(classifiers, networks)
        if isinstance(classifiers, str)
        else classifiers
    )
    if suite.name == "networks":
        find_pixels(schema, networks.image if networks else None)

    regress = schema.label_column is not None and schema.label_column.numeric

    def scores(
        table: pa.Table, told: Progress | None
    ) -> UtilityReport | RegressionReport:
        if regress:
            return regression_scores(table, test, schema, seed=seed, progress=told)
        return downstream_scores(
            table,
            test,
            schema,
            seed=seed,
            classifiers=suite,
            networks=networks,
            jobs=jobs,
            progress=told,
        )

    reason, count = (
        unscorable(test, schema, regress=regress),
        REGRESSORS if regress else suite.count,
    )
    made, real, notes = _scores(
        (synthetic, train), "table", reason, count, scores, progress
    )
    models = (
        {"regression": made, "regression_ceiling": real}
        if regress
        else {"downstream": made, "ceiling": real}
    )

    def others(ours: pa.Table, theirs: pa.Table) -> dict[str, MetricResult | None]:
        return {
            each.METRIC: each.measured(ours, theirs, schema=schema, seed=seed)
            for each in metrics_of("tables")
        }

    def figures_of_groups(name: str) -> Groups:
        scores_by_group = (
            None
            if train is None
            else group_scores(synthetic, test, train, schema, name, seed=seed)
        )
        return group_figures(
            synthetic, other, schema, name, scores=scores_by_group, seed=seed
        )

    other = test if train is None else train
    groups = None if by is None else figures_of_groups(by)
    if groups is not None:
        notes = (*notes, *groups.notes)
    return Report(
        compared_with="test" if train is None else "train",
        **{"downstream": None, "ceiling": None} | models,
        notes=notes,
        marginals=marginal_distances(synthetic, other, schema, seed=seed),
        floor=None
        if train is None
        else marginal_distances(train, test, schema, seed=seed),
        metrics=others(synthetic, other),
        groups=groups,
        metrics_floor={} if train is None else others(train, test),
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
    """Returns how synthetic images compare with real ones; its figures are not covered by the guarantee.

    The ``synthetic`` images were made from ``train``, and not from ``test``; both are real ones. For ``classifiers``
    see :func:`~noisegate_evaluate.read_classifiers`, None for the CNN; distances are measured in ``features``, None for
    the encoder in the package, on so many ``images`` of each set at most. The ``seed`` is of classifiers and draws, and
    public; ``progress`` is told after each epoch and each training, with those of the ceiling.

    Raises:
        SchemaError: the schema is not one of images.
        DataError: a set is empty or does not have the form of the schema.
        ModelError: the encoder in the package cannot be read.
        MissingExtraError: a classifier needs a package that is not installed.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    form, suite = image_form(schema), classifiers or read_classifiers("cnn")
    for what, several in (("synthetic", synthetic), ("test", test), ("train", train)):
        if several is not None:
            check_images(several, what, form)
    suite.check_installed()
    space = features or EncoderFeatures()
    distances = image_distances(
        synthetic, test if train is None else train, space, images=images, seed=seed
    )
    floor = (
        None
        if train is None
        else image_distances(train, test, space, images=images, seed=seed)
    )

    def scores(some: Images, told: Progress | None) -> UtilityReport:
        rows, real = (
            LabelledRows(features=each.pixels, labels=each.codes[:, 0])
            for each in (some, test)
        )
        return utility_scores(
            suite,
            rows,
            real,
            classes=len(form.labels),
            seed=seed,
            jobs=1,
            progress=told,
        )

    found = 0 if test.labels is None else len(np.unique(test.labels))
    reason = (
        f"the test images have {found} class(es); scores need at least 2"
        if found < 2
        else ""
    )
    reason = "the images have no labels" if test.labels is None else reason
    made, real, notes = _scores(
        (synthetic, train), "images", reason, suite.count, scores, progress
    )
    told: Any = {"compared_with": "test" if train is None else "train", "notes": notes}
    return ImageReport(
        downstream=made, ceiling=real, distances=distances, floor=floor, **told
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
    """Returns how synthetic linked tables compare with real ones; its figures are not covered by the guarantee.

    Models learn from parents beside what their children come to: the number of these, the mean and the last of their
    numbers, the share of each of their levels. They predict the label of the first table.

    The tables of either set come by name; the parents of ``test`` are not those that the synthetic tables were made
    from. Figures of links are of so many ``bins``, of equal width, of each number or date; for the rest see
    `evaluate_tables`.

    Raises:
        DataError: the table of the parents has no rows, a table lacks a column, or there is none.
        OptionError: ``classifiers`` is no such choice, or ``jobs`` is below 1.
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
    several = {"synthetic": synthetic, "test": test} | (
        {} if train is None else {"training": train}
    )
    read = {
        what: bring_together(tables, schema, what) for what, tables in several.items()
    }
    flat = {what: beside(linked, schema) for what, linked in read.items()}
    real, held_out = read["test" if train is None else "training"], read["test"]
    how: Any = {
        "seed": seed,
        "classifiers": classifiers,
        "jobs": jobs,
        "progress": progress,
    }
    used = None if train is None else flat["training"][0]
    report = evaluate_tables(flat["synthetic"][0], *flat["test"], used, **how)

    def links(made: LinkedTables, other: LinkedTables) -> dict[str, LinkDistances]:
        return {
            link.name: link_distances(made, other, link, bins=bins)
            for link in schema.links
        }

    missing = {
        table.name: MissingTogether.measured(
            synthetic[table.name],
            real.tables[table.name],
            schema=table.schema,
            seed=seed,
        )
        for table in schema.tables
    }
    of_parents = {field.name: getattr(report, field.name) for field in fields(report)}
    return LinkedReport(
        **of_parents | {"questions": questions_of_linked(schema)},
        missing={name: found for name, found in missing.items() if found is not None},
        tables={
            table.name: marginal_distances(
                synthetic[table.name], real.tables[table.name], table.schema, seed=seed
            )
            for table in schema.tables
            if synthetic[table.name].num_rows and real.tables[table.name].num_rows
        },
        links=links(read["synthetic"], real),
        links_floor=None if train is None else links(real, held_out),
    )


def _scores(
    sets: tuple[Any, Any],
    kind: str,
    reason: str,
    count: int,
    scores: Callable[[Any, Progress | None], Any],
    progress: Progress | None,
) -> tuple[Any, Any, tuple[str, ...]]:
    """Returns scores after training on the synthetic and on the real records, and notes; none against a reason."""
    made, train = sets
    if reason:
        return None, None, (f"no downstream scores, because {reason}",)

    def counted(before: int) -> Progress | None:
        """Counts on from the models of an earlier set."""
        total = count * (1 if train is None else 2)
        return (
            None
            if progress is None
            else lambda name, done, _: progress(name, before + done, total)
        )

    first = scores(made, counted(0))
    second = None if train is None else scores(train, counted(count))
    told = {"synthetic": first.notes, "real": second.notes if second else ()}
    return (
        first,
        second,
        tuple(
            f"trained on the {what} {kind}: {note}"
            for what in told
            for note in told[what]
        ),
    )
