"""The evaluation of linked tables: of each table, of each link, and of parents beside what their children come to."""

from __future__ import annotations

from dataclasses import fields

from noisegate.evaluation.comparison import LinkedReport
from noisegate.evaluation.families import LinkedTables, Tables, beside, bring_together
from noisegate.evaluation.metrics.links import LinkDistances, link_distances
from noisegate.evaluation.metrics.marginals import marginal_distances
from noisegate.evaluation.report import evaluate_tables
from noisegate.evaluation.utility.recipe import Suite
from noisegate.evaluation.utility.runner import Progress
from noisegate.schema.linked import LinkedSchema

BINS = 10
"""Equal-width bins of numeric columns in figures of links: tables of two columns of few rows have few cells."""


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
    """Returns how synthetic linked tables compare with real ones.

    Models learn from parents beside what their children come to: the number of these, the mean and the last of their
    numbers, the share of each of their levels. They predict the label of the first table.

    Args:
        synthetic: the synthetic tables, by name.
        test: real tables whose parents the synthetic ones were not made from.
        schema: of both.
        train: the real tables that they were made from. Given, distances are to them, and the report also says how the
            real training tables do: the ceiling of the scores and the floor of the distances.
        seed: of the models and of the draw of 3-way marginals.
        classifiers: see `evaluate_tables`.
        bins: equal-width bins of each number or date in the figures of links.
        jobs: see `evaluate_tables`.
        progress: see `evaluate_tables`.

    Returns:
        The report. Its figures are computed on real data and are not covered by the guarantee.

    Raises:
        DataError: the table of the parents has no rows, a table lacks a column, or there is none.
        OptionError: ``classifiers`` is no such choice, or ``jobs`` is below 1.
        MissingExtraError: a classifier needs a package that is not installed.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.evaluation import evaluate_linked
        >>> from noisegate.schema import Integer, Schema
        >>> from noisegate.schema.linked import LinkedSchema, LinkedTable
        >>> people = LinkedTable(name="people", key="id", schema=Schema([Integer(name="age", lower=0, upper=99)]))
        >>> pain = Schema([Integer(name="pain", lower=0, upper=9)])
        >>> schema = LinkedSchema([people, LinkedTable(name="visits", schema=pain, parent="people", most=5)])
        >>> tables = {"people": pa.table({"id": [1, 2], "age": [40, 50]}),
        ...           "visits": pa.table({"id": [1, 1, 2], "pain": [3, 4, 8]})}
        >>> evaluate_linked(tables, tables, schema).links["visits"].transitions.mean
        0.0
    """
    several = {"synthetic": synthetic, "test": test} | ({} if train is None else {"training": train})
    read = {what: bring_together(tables, schema, what) for what, tables in several.items()}
    flat = {what: beside(linked, schema) for what, linked in read.items()}
    real, held_out = read["test" if train is None else "training"], read["test"]
    report = evaluate_tables(
        flat["synthetic"][0],
        *flat["test"],
        None if train is None else flat["training"][0],
        seed=seed,
        classifiers=classifiers,
        jobs=jobs,
        progress=progress,
    )

    def links(made: LinkedTables, other: LinkedTables) -> dict[str, LinkDistances]:
        return {link.name: link_distances(made, other, link, bins=bins) for link in schema.links}

    return LinkedReport(
        **{field.name: getattr(report, field.name) for field in fields(report)},
        tables={
            table.name: marginal_distances(synthetic[table.name], real.tables[table.name], table.schema, seed=seed)
            for table in schema.tables
            if synthetic[table.name].num_rows and real.tables[table.name].num_rows
        },
        links=links(read["synthetic"], real),
        links_floor=None if train is None else links(real, held_out),
    )
