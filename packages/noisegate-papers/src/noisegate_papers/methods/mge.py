"""DP-MGE: a Gaussian of encoder features, decoded.

Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, section 3.1: an encoder and a decoder were trained on
public images and are frozen. One pass over the private images releases, in one plan, class-wise sums of their features
z, which have length 1, of z ⊙ z, and counts. What is released is made the mean and the variance of a Gaussian by the
rules of `noisegate_papers.training.feature_gaussian`; features are drawn from it, brought to length 1, and decoded.
Sensitivities, the noise against the paper's Claim 1, and what goes beyond the paper are in docs/mge.md.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from noisegate.errors import OptionError
from noisegate.methods.embedding import COUNTS, Embedding, MeanEmbeddingMethod
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Query
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Count, Share, Within, derived, settings
from noisegate_images.methods.matched import EncodedImages
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.public_reference import Axes, public_axes

if TYPE_CHECKING:
    from noisegate.features.feature_map import FeatureMap
    from noisegate.gate.gate import Gate
    from noisegate_images.features.perceptual import Perceptual
    from noisegate_papers.models.decoded import DecodedGaussian, FeatureGaussians

MEAN, SECOND = "mean", "second-moment"
"""The queries, beside the counts."""


@register("dp-mge")
@settings
class DPMGE(EncodedImages, MeanEmbeddingMethod):
    """Settings of DP-MGE; none of them depends on private data.

    Examples:
        >>> from noisegate import DPMGE
        >>> DPMGE(image=(8, 8, 1), layer="middle").encoding().dim
        64
    """

    audit_on: ClassVar = "images"
    audit_files: ClassVar = ("decoder",)

    covariance: Literal["diagonal", "full"] = derived(lambda given: "diagonal" if given["public"] is None else "full")
    """"diagonal", as in the paper, or "full" along `axes`; by default full with public images, which say where the axes
    are, and diagonal without."""
    axes: Count = 16
    """Of a full covariance. On public photographs (docs/mge.md) 16 did best from ε = 0.1 to 1, 32 at ε = 10."""
    public: str | None = None
    """Public images whose principal axes these are; None for random directions, of which many are needed."""
    public_records: Count = 10_000
    """How many public images are encoded at most."""
    per_class: bool = True
    """A Gaussian for each label; if not, labels are drawn without looking at the image."""
    floor: Annotated[float, Within(gt=0, le=1), "a positive number, at most 1"] = 1e-6
    """Least variance. A feature of d numbers has 1/d of its squared length in each on average: this is next to none."""
    mean_share: Share = 1.0
    """Budget share of the mean."""
    second_share: Share = 1.0
    """Budget share of the second moment."""
    counts_share: Share = 0.05
    """Budget share of the counts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", astuple(self.shape))
        if self.public is not None and self.covariance == "diagonal":
            raise OptionError(
                f"public={self.public!r}: public images are for the axes of a full covariance; leave them out, or "
                "covariance='diagonal'."
            )

    def encoding(self) -> Perceptual:
        """Returns the map from an image to its feature; see `EncodedImages`."""
        encoding = super().encoding()
        if self.covariance == "full" and self.axes > encoding.dim:
            raise OptionError(f"axes={self.axes}: a feature has {encoding.dim} numbers only; ask for as many at most.")
        return encoding

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of features and of their second moments. Reads the public images, if any."""
        from noisegate_papers.features.transforms import Compression, OuterProducts, Squares

        check_image_schema(schema, self.shape, labelled=False)
        first: Perceptual | Compression = self.encoding()
        second: FeatureMap = Squares(of=first)
        if self.covariance == "full":
            first = Compression(of=first, axes=_axes(self, schema).values)
            second = OuterProducts(of=first)
        shares = {MEAN: (first, self.mean_share), SECOND: (second, self.second_share)}
        return {name: Embedding(*one, per_class=self.per_class) for name, one in shares.items()}

    def sum_queries(self, schema: Schema, budget: Budget) -> tuple[Query, ...]:
        """Returns what will be asked, of axes that are like those of the public images, which are not read here."""
        queries = super(DPMGE, replace(self, public=None, covariance=self.covariance)).sum_queries(schema, budget)
        return queries if self.public is None else tuple(replace(query, feature_map=None) for query in queries)

    def check_gate(self, gate: Gate) -> None:
        """See `Method`; a DataError if the public images are private ones too."""
        super().check_gate(gate)
        if self.public is not None:
            gate.check_apart(self.public)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings with the digests of encoder and decoder, and what the axes are."""
        axes = {"axes": _axes(self, schema).facts} if self.covariance == "full" else {}
        return {"settings": self.stored_with_digests(), **axes}

    def check_fit(self, device: str) -> None:
        """See `Method`; an error if there is no decoder that fits."""
        super().check_fit(device)
        self.checked_decoder()

    def gaussians(self, release: Release) -> FeatureGaussians:
        """Returns the distributions of features in a release; refuses other public images than its own."""
        from noisegate_images.training.moment_matching import read_target
        from noisegate_papers.training.feature_gaussian import feature_gaussians

        target, axes = read_target(release, counts=COUNTS), None
        means, seconds = (
            target.means[name] if self.per_class else release.values[name].T / target.records for name in (MEAN, SECOND)
        )
        if self.covariance == "full":
            axes = _axes(self, release.schema).checked(release.certificate.public, self.public)
        return feature_gaussians(means, seconds, axes=axes, floor=self.floor, nonnegative=self.encoding().nonnegative)

    def model(self, release: Release, fitting: Any) -> DecodedGaussian:
        """Returns the Gaussians and the decoder of what is drawn from them."""
        from noisegate_images.training.moment_matching import read_target
        from noisegate_papers.models.decoded import DecodedGaussian

        source, decoder, labelled = self.gaussians(release), self.checked_decoder(), bool(release.schema.layout.classes)
        weights = read_target(release, counts=COUNTS).weights
        return DecodedGaussian(source=source, decoder=decoder, weights=weights, labelled=labelled)


# The public images are encoded once, and not for the check, the query and the fit anew.
@lru_cache(maxsize=1)
def _axes(method: DPMGE, schema: Schema) -> Axes:
    most, seed = method.public_records, method.seed
    return public_axes(method.public, schema, method.encoding(), method.axes, most=most, seed=seed)
