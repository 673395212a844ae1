"""The figures of synthetic linked tables, against the real tables that they were made from and those held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.errors import UserError
from noisegate.schema.linked.schema import LinkedSchema
from noisegate_evaluate.measures import BINS
from noisegate_evaluate.metrics.links import LinkDistances, link_distances
from noisegate_evaluate.metrics.marginals import marginal_distances
from noisegate_evaluate.reading import LinkedTables, beside, bring_together
from noisegate_evaluate.tables import downstream_scores

MEANS = ("child_counts", "parent_child", "transitions", "distinct_values")
FLAWS = ("orphans", "repeated_keys", "backwards")


class Judge:
    """Scores tables of one set.

    Args:
        train: what methods were given, by name.
        test: what they were not.
        schema: of both.
    """

    def __init__(
        self,
        train: Mapping[str, pa.Table],
        test: Mapping[str, pa.Table],
        schema: LinkedSchema,
    ) -> None:
        self._train, self._test, self._schema = train, test, schema

    def score(self, made: Mapping[str, pa.Table], *, seed: int = 0) -> dict[str, Any]:
        """Returns the figures; a method that leaves a table out is measured on the others."""
        schema = self._of(tuple(made))
        ours, theirs, held_out = (
            bring_together(tables, schema, what)
            for tables, what in (
                (made, "synthetic"),
                (self._train, "training"),
                (self._test, "test"),
            )
        )
        return {
            "links": {
                link.name: figures(link_distances(ours, theirs, link, bins=BINS))
                | broken(ours, link)
                for link in schema.links
            },
            "pairs": {
                table.name: marginal_distances(
                    made[table.name],
                    self._train[table.name],
                    table.schema,
                    orders=(2,),
                    bins=BINS,
                )
                .order(2)
                .mean
                for table in schema.tables
                if len(table.schema.columns) > 1
            },
            "roc_auc": roc_auc(ours, held_out, schema, seed=seed),
        }

    def floor(self) -> dict[str, Any]:
        """Returns the figures of the held-out tables, with the score of models that learn from the real ones."""
        real, held_out = (
            bring_together(tables, self._schema, "real")
            for tables in (self._train, self._test)
        )
        return self.score(self._test) | {
            "roc_auc": roc_auc(real, held_out, self._schema)
        }

    def _of(self, names: tuple[str, ...]) -> LinkedSchema:
        tables = [table for table in self._schema.tables if table.name in names]
        rules = [
            rule
            for rule in self._schema.constraints
            if {name.split(".")[0] for name in rule.names} <= set(names)
        ]
        return replace(self._schema, tables=tables, constraints=tuple(rules))


def figures(distances: LinkDistances) -> dict[str, float | None]:
    """Returns the figures of a link by name."""
    means = {name: getattr(distances, name) for name in MEANS}
    return {
        **{name: None if one is None else one.mean for name, one in means.items()},
        "gaps": None if distances.gaps is None else distances.gaps.largest,
        **{name: getattr(distances, name) for name in FLAWS},
    }


def broken(linked: LinkedTables, link: Any) -> dict[str, int]:
    """Returns how many children come before the day since which they are counted."""
    if link.since is None or link.order is None:
        return {}
    families = linked.families[link.name]
    parents, children = linked.tables[link.parent.name], linked.tables[link.name]
    since = parents[link.since.name].to_numpy()[families.parent]
    return {
        "too_early": int(
            np.sum(children[link.order.name].to_numpy()[families.rows] < since)
        )
    }


def roc_auc(
    made: LinkedTables, held_out: LinkedTables, schema: LinkedSchema, *, seed: int = 0
) -> float | None:
    """Returns the mean ROC-AUC of three models that predict the parents' label; None where they cannot be trained."""
    (learnt, described), (real, _) = beside(made, schema), beside(held_out, schema)
    try:
        return downstream_scores(learnt, real, described, seed=seed).mean.roc_auc
    except UserError:
        return None
