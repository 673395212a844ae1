"""Methods that release class-wise mean embeddings in one pass: a method is its feature maps and their budget shares."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from noisegate.methods.method import Method
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan, Query
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import Counts, FeatureMap
from noisegate.schema import Schema
from noisegate.settings import ImageSize, Seed, Share, settings

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate

COUNTS = "counts"
"""The query for the number of records of each label."""


class Embedding(NamedTuple):
    """One query of a method.

    Examples:
        >>> from noisegate.queries.feature_map import Counts
        >>> from noisegate.methods.embedding import Embedding
        >>> Embedding(Counts(), share=0.03).per_class
        True
    """

    feature_map: FeatureMap
    """From a record to its vector."""
    share: float
    """Part of the budget, relative to the others."""
    bound: float = 1.0
    """Share of the map's norm that vectors are clipped to."""
    per_class: bool = True
    """Whether there is a sum for each label; else one of all records."""


@settings
class MeanEmbeddingMethod(Method):
    """Base of methods with one round of sums: `embeddings` says what is asked; plan and query follow.

    Examples:
        >>> from noisegate import Budget, Schema
        >>> from noisegate.queries.feature_map import Levels
        >>> from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod
        >>> from noisegate.schema import Boolean
        >>> class Shares(MeanEmbeddingMethod):
        ...     def embeddings(self, schema):
        ...         return {"levels": Embedding(Levels(columns=(0,), sizes=(2,)), share=1.0)}
        >>> plan = Shares().plan(Schema([Boolean(name="ill")]), Budget(epsilon=1.0))
        >>> {event.name: event.coordinates for event in plan.events}
        {'levels': 2, 'counts': 1}
    """

    image: ImageSize | None = None
    """Height, width and channels of the images; None for a table."""
    counts_share: Share = 0.03
    """Budget share of the counts."""
    seed: Seed = 0
    """Seed for non-private randomness: features, initial weights, fit. Never of the private noise."""

    @abstractmethod
    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the queries by name; the same for the same schema, settings and seed. Counts are added if missing."""

    def maps(self, schema: Schema) -> dict[str, FeatureMap]:
        """Returns the feature map of each query, counts last."""
        return {
            name: one.feature_map for name, one in self._with_counts(schema).items()
        }

    def plan(self, schema: Schema, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan, with the feature maps in it. Reads no data."""
        return Plan(queries=self.sum_queries(schema, budget)).calibrate(budget)

    def sum_queries(self, schema: Schema, budget: Budget) -> tuple[Query, ...]:
        """Returns what will be asked, before it is known with what noise."""
        layout, embeddings = schema.layout, self._with_counts(schema)
        # Under replace-one the number of records is public; without a label there is nothing else to count.
        if layout.label is None and budget.adjacency is Adjacency.REPLACE_ONE:
            del embeddings[COUNTS]
        return tuple(
            Query.of(
                name,
                feature_map,
                columns=layout.classes or 1 if per_class else 1,
                share=share,
                bound=bound,
            )
            for name, (feature_map, share, bound, per_class) in embeddings.items()
        )

    def query(self, gate: Gate, plan: CalibratedPlan | None = None) -> Release:
        """Returns the release: one pass over the private records, the one time that they are used."""
        self.check_gate(gate)
        plan = plan or self.plan(gate.schema, gate.budget)
        maps = self.next_round(gate.schema, plan, {}, {})
        return gate.sum(
            plan, maps, method=self.name, public=self.public_facts(gate.schema)
        )

    def next_round(
        self,
        schema: Schema,
        plan: CalibratedPlan,
        values: Mapping[str, Any],
        noise_std: Mapping[str, float],
    ) -> Mapping[str, FeatureMap]:
        """Returns the maps of the one round; see `Method`."""
        if values:
            return {}
        maps = plan.maps or self.maps(
            schema
        )  # a plan has none where they depend on public records
        return {
            release.query.name: maps[release.query.name] for release in plan.releases
        }

    def _with_counts(self, schema: Schema) -> dict[str, Embedding]:
        return {
            **self.embeddings(schema),
            COUNTS: Embedding(Counts(), self.counts_share),
        }
