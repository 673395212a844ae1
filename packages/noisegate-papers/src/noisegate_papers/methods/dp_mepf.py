"""DP-MEPF: mean embeddings of perceptual features, by a public network.

Harder, Jalali Asadabadi, Sutherland and Park (TMLR 2023), https://openreview.net/forum?id=R6W7zkMz0P;
`noisegate_papers.methods.perceptual` has its queries and its fit. What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.methods.abilities import (
    BoundsErrors,
    ChangesFitDefaults,
    UsesPublicFiles,
)
from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod
from noisegate.methods.registry import register
from noisegate.models.checkpoint import Fit
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import by_preset, settings
from noisegate_images.methods.public_network import NetworkLayers
from noisegate_images.models.image_network import check_image_schema
from noisegate_images.queries.perceptual import Activations, chosen_activations
from noisegate_papers.methods.perceptual import (
    FIRST,
    SECOND,
    PerceptualEmbedding,
)
from noisegate_papers.queries.error_bounds import ErrorBound, NoiseBounds, noise_bounds
from noisegate_papers.training.schedules import PerceptualFitSettings

if TYPE_CHECKING:
    from noisegate_images.networks.named import FrozenNetwork

RESNET18 = "torchvision:resnet18"
BLOCKS = tuple(f"layer{stage}.{block}" for stage in range(1, 5) for block in range(2))
"""The eight residual blocks of a ResNet18, whose outputs, after their ReLU, are the features of grey images."""


@register("dp-mepf", "mepf")
@settings
class DPMEPF(
    PerceptualEmbedding,
    NetworkLayers,
    MeanEmbeddingMethod,
    BoundsErrors,
    ChangesFitDefaults,
    UsesPublicFiles,
):
    """DP-MEPF: mean embeddings by a public network, for photographs (Harder et al. 2023).

    Examples:
        >>> from noisegate import Budget, DPMEPF
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=("cat", "dog"))
        >>> plan = DPMEPF.for_schema(schema).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: event.coordinates for event in plan.events}
        {'first-moments': 4000, 'counts': 2}
        >>> round(plan.epsilon, 6)
        1.0
    """

    audit_on = "images"
    audit_settings: ClassVar[Mapping[str, Any]] = {
        "latent": 4,
        "hidden": (8,),
        "channels": (4, 2),
    }

    fit_class = PerceptualFitSettings
    stored_if_given = frozenset(
        {"stopping_network", "stopping_weights", "stopping_sha256"}
    )

    stopping_network: str | None = None
    """Network whose features compare candidates for private early stopping, "inception:v3" as in the paper; None for
    the averages of the channels of `network`."""
    stopping_weights: str | None = None
    """File of the weights of `stopping_network`. By default those of pytorch-fid in torch's cache; never downloaded."""
    stopping_sha256: str | None = None
    """SHA-256 of the file of these weights."""
    network: str = by_preset("encoder", paper="torchvision:vgg19", paper_grey=RESNET18)
    """"encoder", the one in the package, "torchvision:NAME" or "timm:NAME"."""

    def __post_init__(self) -> None:
        if self.preset == "paper-grey" and self.network == RESNET18 and not self.layers:
            object.__setattr__(self, "layers", BLOCKS)
        self.fill_in_channels(self.shape)

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of each moment, and the sums of all records together for private early stopping."""
        check_image_schema(schema, self.shape, labelled=False)
        compared = self.compared() if self.stopping == "private" else None
        activations = self.activations(self.shape, pool=False)
        return self.perceptual_embeddings(activations, compared)

    def compared(self) -> Activations:
        """Returns the map whose mean embedding decides early stopping.

        Raises:
            UserError: if its network does not exist.
        """
        network = self._stopping_encoder()
        if network is None:
            return self.activations(self.shape, pool=True)
        return chosen_activations(network, network.layers, self.shape, pool=True)

    def _stopping_encoder(self) -> FrozenNetwork | None:
        from noisegate_images.networks.named import load_network

        if self.stopping_network is None:
            return None
        return load_network(
            self.stopping_network, self.stopping_weights, self.stopping_sha256
        )

    def file_digests(self) -> dict[str, str]:
        """Returns the SHA-256 of the networks in use."""
        digests = {"sha256": self.encoder().sha256}
        stopping_network = self._stopping_encoder()
        if stopping_network is not None:
            digests["stopping_sha256"] = stopping_network.sha256
        return digests

    def error_bounds(
        self, schema: Schema, budget: Budget, records: int
    ) -> tuple[ErrorBound | NoiseBounds, ...]:
        """Returns bounds on the generator's error from noise on the moments; queries for stopping do not matter."""
        plan = self.plan(schema, budget)
        moments = [plan.release(name) for name in (FIRST, SECOND)[: self.moments]]
        return (noise_bounds(moments, records=records),)

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """Changes to the defaults of the fit."""
        return self.perceptual_fit_defaults

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns the fit of the generator to the released moments, ready to run."""
        maps = plan.maps if plan else self.maps(release.schema)
        return self.fit_to_moments(release, maps, self, seed=self.seed, device=device)
