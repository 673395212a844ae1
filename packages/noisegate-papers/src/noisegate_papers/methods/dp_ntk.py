"""DP-NTK: mean embeddings by a neural tangent kernel, which a generator is fitted to.

Yang, Adamczewski, Sutherland and Park (TMLR 2024), https://arxiv.org/abs/2303.01687. One pass over the records releases
class-wise sums of normalised gradients of a random network, and counts. What differs from the paper, and why, is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from noisegate.methods.abilities import ChangesFitDefaults
from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod
from noisegate.methods.registry import register
from noisegate.models.checkpoint import Fit
from noisegate.privacy.release import Release
from noisegate.queries.contingency import check_groups
from noisegate.schema import Schema
from noisegate.settings import Count, TwoOrMore, Widths, settings
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.table_or_image import (
    TableOrImageGenerator,
    by_generator,
)
from noisegate_papers.queries.tangent import draw_network, draw_pairs

TANGENT = "tangent"
"""The query of the gradients."""


@register("dp-ntk")
@settings
class DPNTK(TableOrImageGenerator, MeanEmbeddingMethod, ChangesFitDefaults):
    """DP-NTK: mean embeddings by a neural tangent kernel (Yang et al. 2024).

    Yang, Adamczewski, Sutherland and Park (TMLR 2024), https://arxiv.org/abs/2303.01687. The sum is that of normalised
    gradients of a random network with respect to its weights.

    Examples:
        >>> from noisegate import Budget, DPNTK, Schema
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=9), Boolean(name="ill")), label="ill")
        >>> plan = DPNTK(width=5).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'tangent': (30, 3.79), 'counts': (2, 21.86)}
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {"width": 4, "cells": 8}

    width: Count = by_generator(table=8, images=200)
    """Number of hidden units of the network. A gradient has width · (inputs + 2) coordinates. The paper uses 800 for
    images."""
    cells: TwoOrMore = 32
    """Approximate number of bins of a numeric column of a table."""
    memory: Count = 1000
    """Largest amount of memory for the vectors of all bins of a table, in megabytes."""
    hidden: Widths = by_generator(
        table=(256, 256), images=(), convolutional=(200,), fully_connected=(500, 500)
    )
    """Widths of the generator's hidden layers."""

    def __post_init__(self) -> None:
        self.check_generator(self.image)

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sum of gradients; refuses tables whose vectors need more than `memory`."""
        if self.image is not None:
            check_image_schema(schema, self.shape)
            return {
                TANGENT: Embedding(
                    draw_network(self.shape.size, width=self.width, seed=self.seed), 1.0
                )
            }
        check_groups(len(schema.columns), "dp-ntk", "fewer columns")
        drawn = draw_pairs(
            schema.layout,
            width=self.width,
            cells=self.cells,
            memory=self.memory,
            seed=self.seed,
        )
        return {TANGENT: Embedding(drawn, 1.0)}

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """Changes to the defaults of the fit."""
        return self.fit_defaults_for({"steps": 2000, "batch": 200})

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns the fit of the generator to the released means, ready to run."""
        maps = plan.maps if plan else self.maps(release.schema)
        return self.fit_to_means(release, maps, self, seed=self.seed, device=device)
