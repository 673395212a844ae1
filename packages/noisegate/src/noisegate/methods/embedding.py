"""Methods that release class-wise mean embeddings, in one pass over the records.

Such a method is its feature maps and their fractions of the budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from noisegate.methods.abilities import AsksInRounds
from noisegate.methods.method import Method
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget, Plan, Query, plan_sums
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import Counts, FeatureMap
from noisegate.schema import Schema
from noisegate.settings import ImageSize, Seed, Settings, Share, settings

if TYPE_CHECKING:
    import numpy.typing as npt

    from noisegate.gate.gate import Gate

COUNTS = "counts"
"""The query for the number of records of each label."""


class Embedding(NamedTuple):
    """One query of a mean embedding: the sum of a feature map over the records.

    Examples:
        >>> from noisegate.queries.feature_map import Counts
        >>> from noisegate.methods.embedding import Embedding
        >>> Embedding(Counts(), share=0.03).per_class
        True
    """

    feature_map: FeatureMap
    """Map from a record to its vector."""
    share: float
    """Share of the budget, relative to the other queries."""
    bound: float = 1.0
    """Fraction of the map's norm that vectors are clipped to. Use less than 1 only if
    it is publicly known that hardly any vector is longer."""
    per_class: bool = True
    """Whether there is a sum for each label; otherwise one sum of all records."""


class PlansByStandIns(ABC):
    """Ability to plan queries whose maps depend on public records.

    A plan reads no records, not even public ones.
    """

    @abstractmethod
    def stand_ins(self, schema: Schema) -> dict[str, Embedding] | None:
        """Returns queries with the dimensions, norms and shares of the real queries.

        Args:
            schema: Public schema of the records.

        Returns:
            The queries by name; None if the maps depend on no public records, so that
            the plan may contain the maps themselves.
        """


@settings
class MeanEmbeddingMethod(Settings, Method, AsksInRounds):
    """Base class of methods that release sums of feature maps in one round.

    A method implements `embeddings`; plan and query are derived from them. It also
    states what is fitted to the sums, or that nothing is fitted (`ClosedForm`).

    Examples:
        >>> from noisegate import Budget, Schema
        >>> from noisegate.queries.feature_map import Levels
        >>> from noisegate.methods.abilities import ClosedForm
        >>> from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod
        >>> from noisegate.schema import Boolean
        >>> class Shares(ClosedForm, MeanEmbeddingMethod):
        ...     def embeddings(self, schema):
        ...         levels = Levels(columns=(0,), sizes=(2,))
        ...         return {"levels": Embedding(levels, share=1.0)}
        ...     def model(self, release):
        ...         raise NotImplementedError
        >>> plan = Shares().plan(Schema([Boolean(name="ill")]), Budget(epsilon=1.0))
        >>> {event.name: event.coordinates for event in plan.events}
        {'levels': 2, 'counts': 1}
    """

    image: ImageSize | None = None
    """Height, width and channels of the images; None for a table."""
    counts_share: Share = 0.03
    """Share of the budget for the counts of records."""
    seed: Seed = 0
    """Seed for non-private randomness: features, initial weights, fit. The noise that
    protects the records cannot be seeded."""

    @abstractmethod
    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the queries by name.

        They depend on schema, settings and seed only. The counts of records are added
        with `counts_share`, unless a method has a query with that name itself.
        """

    def maps(self, schema: Schema) -> dict[str, FeatureMap]:
        """Returns the feature map of each query; counts come last."""
        return {
            name: embedding.feature_map
            for name, embedding in self._embeddings_and_counts(schema).items()
        }

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Plans the queries and calibrates their noise; reads no data.

        Returns:
            The calibrated plan, which contains the feature maps.
        """
        return plan_sums(budget, self.sum_queries(schema, budget))

    def sum_queries(self, schema: Schema, budget: Budget) -> tuple[Query, ...]:
        """Returns the queries of the plan, without their noise.

        They are those of `embeddings` and the counts of records. Each is one sum for
        every class of the label, or one sum in all if it is not by class. Counts are
        left out if the number of records is public and there is no label.

        Args:
            schema: Public schema of the records.
            budget: Privacy guarantee; only its adjacency is used.
        """
        stand_ins = None
        if isinstance(self, PlansByStandIns):
            stand_ins = self.stand_ins(schema)
        if stand_ins is None:
            embeddings = self._embeddings_and_counts(schema)
            return sum_queries(embeddings, schema, budget)
        embeddings = with_counts(stand_ins, self.counts_share)
        queries = sum_queries(embeddings, schema, budget)
        return tuple(replace(query, feature_map=None) for query in queries)

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Releases sums of features of the private records, in one pass over them.

        Args:
            gate: Private records and a budget.
            plan: The result of `plan` for them; None computes it.
        """
        self.check_gate(gate)
        if plan is None:
            plan = self.plan(gate.schema, gate.budget)
        maps = self.next_round(gate.schema, plan, {}, {})
        return gate.sum(
            plan, maps, method=self.name, public=self.public_facts(gate.schema)
        )

    def next_round(
        self,
        schema: Schema,
        plan: Plan,
        values: Mapping[str, Any],
        noise_std: Mapping[str, float],
    ) -> Mapping[str, FeatureMap]:
        """Returns the maps of the only round, and nothing after it.

        All queries of such a method are in one round, so if any noisy result exists,
        all of them exist.

        Args:
            schema: Public schema of the records.
            plan: The calibrated plan.
            values: Noisy results so far, by query: none, or those of the complete
                round.
            noise_std: Not used, because the queries do not depend on the noise.

        Returns:
            The feature map of each query of the plan, or an empty mapping.
        """
        is_answered = bool(values)
        if is_answered:
            return {}
        # A plan carries no maps where they depend on public records, which a plan does
        # not read, as the axes of DP-MGE may: they are made here then.
        maps = plan.maps or self.maps(schema)
        return {
            release.query.name: maps[release.query.name] for release in plan.releases
        }

    def decisions(
        self,
        schema: Schema,
        plan: Plan,
        values: Mapping[str, Any],
        noise_std: Mapping[str, float],
    ) -> dict[str, Any]:
        """Returns nothing, because one round depends on no noisy results."""
        return {}

    def settled(self, schema: Schema, epsilon: float) -> Self:
        """Returns the method unchanged, because its queries do not depend on ε."""
        return self

    def _embeddings_and_counts(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the queries by name, counts last."""
        return with_counts(self.embeddings(schema), self.counts_share)


def class_counts(release: Release) -> npt.NDArray[np.float64]:
    """Returns the number of records of each class, as far as a release states it.

    Args:
        release: A release of a method of one round.

    Returns:
        Noisy counts, (classes,), in the order of the label's codes; one number without
        a label. Where no counts were asked, as the number of records is public and
        there is no label, it is that number.
    """
    if COUNTS in release.values:
        return np.asarray(release.values[COUNTS][0])
    return np.array([float(release.certificate.public.get("records") or 1)])


def with_counts(
    embeddings: Mapping[str, Embedding], counts_share: float
) -> dict[str, Embedding]:
    """Returns the queries and the query of the numbers of records, which comes last.

    Args:
        embeddings: The queries by name; a query `COUNTS` among them is left as it is.
        counts_share: Share of the budget for the counts, if they are added.
    """
    queries = dict(embeddings)
    counts = queries.pop(COUNTS, Embedding(Counts(), counts_share))
    return {**queries, COUNTS: counts}


def sum_queries(
    embeddings: Mapping[str, Embedding], schema: Schema, budget: Budget
) -> tuple[Query, ...]:
    """Returns the queries of a plan, without their noise.

    Each is a sum for every class of the label or, if it is not by class, one sum.
    Counts are left out where the number of records is public and there is no label.

    Args:
        embeddings: The queries by name, counts among them.
        schema: Public schema of the records.
        budget: Privacy guarantee, of which only the adjacency counts here.
    """
    label_count = schema.layout.classes or 1
    # Under replace-one the number of records is public, and without a label there is
    # nothing else to count.
    is_replace_one = budget.adjacency is Adjacency.REPLACE_ONE
    leaves_out_counts = schema.layout.label is None and is_replace_one
    return tuple(
        Query.of(
            name,
            embedding.feature_map,
            columns=label_count if embedding.per_class else 1,
            share=embedding.share,
            bound=embedding.bound,
        )
        for name, embedding in embeddings.items()
        if not (name == COUNTS and leaves_out_counts)
    )
