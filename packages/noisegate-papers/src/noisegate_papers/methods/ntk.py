"""DP-NTK: mean embeddings with neural tangent kernels.

Yang, Adamczewski, Sutherland and Park (TMLR 2024), https://arxiv.org/abs/2303.01687. One pass over the records releases
the class-wise sum of normalised gradients of a random network in its weights, and counts. A generator is then fitted so
that its expected embedding matches. What differs is in docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from noisegate.features.contingency import check_groups
from noisegate.features.feature_map import FeatureMap
from noisegate.methods.embedding import Embedding
from noisegate.methods.registry import register
from noisegate.schema import Schema
from noisegate.settings import Count, TwoOrMore, Widths, settings
from noisegate_images.methods.matched import IMAGE_FIT, TABLES, MatchedMethod, by_generator
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.features.tangent import draw_network
from noisegate_papers.features.tangent_pairs import draw_pairs

TANGENT = "tangent"


@register("dp-ntk")
@settings
class DPNTK(MatchedMethod):
    """Settings of DP-NTK; none of them depends on private data.

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
    """Hidden units of a network; a gradient has width · (inputs + 2) coordinates. The paper has 800 for images."""
    cells: TwoOrMore = 32
    """Cells of a numeric column of a table, about."""
    memory: Count = 1000
    """What the vectors of all cells of a table may take, in megabytes."""
    hidden: Widths = by_generator(table=(256, 256), images=(), convolutional=(200,), fully_connected=(500, 500))
    """Widths of the generator's hidden layers."""

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """What the fit has otherwise."""
        if self.generator in TABLES:
            return {"steps": 1000, "learning_rate": 0.1} if self.generator == "mixture" else {}
        return {"steps": 2000, "batch": 200, "learning_rate": 5e-3, **IMAGE_FIT}

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sum of gradients; refuses tables whose vectors would take more than `memory`."""
        return {TANGENT: Embedding(self._tangent(schema), 1.0)}

    def _tangent(self, schema: Schema) -> FeatureMap:
        if self.image is not None:
            check_image_schema(schema, self.shape)
            return draw_network(self.shape.size, width=self.width, seed=self.seed)
        check_groups(len(schema.columns), "dp-ntk", "fewer columns")
        return draw_pairs(schema.layout, width=self.width, cells=self.cells, memory=self.memory, seed=self.seed)
