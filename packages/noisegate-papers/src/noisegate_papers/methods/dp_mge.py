"""DP-MGE: Gaussians of the features of an encoder, which are drawn and decoded to images.

Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, section 3.1. One plan releases class-wise sums of
features z of length 1, by a frozen public encoder, of z ⊙ z, and counts: the moments of a Gaussian, of which features
are drawn and decoded. What goes beyond the paper is in [mge](../../docs/mge.md).

The queries are those of the table in
[README.md](README.md#queries-and-their-sensitivity).

Proofs. ‖z ⊙ z‖² = Σ zⱼ⁴ ≤ (Σ zⱼ²)² = 1, since the square has only nonnegative cross
terms more; and squares are not negative, so two of them are at most √2 apart. Both are
reached. For the full matrix the inner product of two such vectors is ⟨x, y⟩², so the
norm is ‖x‖² ≤ ‖z‖² = 1. Under replace-one √2 would do there as well, but the gate
enforces norms and signs only, and these entries have both signs. The gate clips to
these norms in any case ([G-01](../../docs/guarantees.md#G-01),
[G-02](../../docs/guarantees.md#G-02)): an error here would cost accuracy, not privacy.

**Against the paper's Claim 1.** It splits ε and δ in halves for the two moments and
goes by way of Rényi divergences: σ = Δ (√(2 log(2/δ)) + √(2 log(2/δ) + ε))/ε for each
(worked out from its proof; the formula is lost in the copy at hand). Here both are one
Gaussian mechanism, composed exactly ([G-03](../../docs/guarantees.md#G-03)), and ε(δ)
is the analytic formula. At δ = 1e-5, for the same sensitivity and with the number of
images public, the noise on each moment is 0.44 of the claim's at ε = 0.1, 0.53 at ε = 1
and 0.66 at ε = 10. Under add/remove-one the number of images is private here, and noisy
counts take a small part of the budget.

**From noisy moments to a Gaussian.** The variance E z² − (E z)² of noisy moments can be
negative, which the paper does not discuss. Features have length 1, so it is public that
second moments are not negative and add up to 1 (a full matrix is positive semi-definite
with trace 1, or at most 1 along fewer axes than there are), and that the mean has
length at most 1. The released moments are moved to the nearest point of that set, which
is post-processing and never further from the truth; then variances, or eigenvalues, are
clipped to [`floor`, 1]. Drawn features are cut at 0 if the encoder gives no negative
entry, and scaled to length 1.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from noisegate.errors import OptionError
from noisegate.methods.abilities import (
    ClosedForm,
    UsesPublicFiles,
    UsesPublicRecords,
)
from noisegate.methods.embedding import (
    COUNTS,
    Embedding,
    MeanEmbeddingMethod,
    PlansByStandIns,
)
from noisegate.methods.registry import register
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Schema
from noisegate.settings import Count, Share, Within, derived, settings
from noisegate_images.methods.public_network import EncodedImages
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.public_reference import once, public_axes
from noisegate_papers.queries.transforms import Compression, OuterProducts, Squares

if TYPE_CHECKING:
    from noisegate_images.queries.perceptual import Perceptual
    from noisegate_papers.methods.public_reference import Axes
    from noisegate_papers.models.decoded import DecodedGaussian, FeatureGaussians

MEAN = "mean"
"""The query of the sums of features."""
SECOND = "second-moment"
"""The query of the sums of their second moments."""


@register("dp-mge")
@settings
class DPMGE(
    ClosedForm,
    EncodedImages,
    MeanEmbeddingMethod,
    PlansByStandIns,
    UsesPublicFiles,
    UsesPublicRecords,
):
    """DP-MGE: Gaussians of public features, decoded to images.

    Examples:
        >>> from noisegate import DPMGE
        >>> DPMGE(image=(8, 8, 1), layer="middle").encoding().dim
        64
    """

    audit_on = "images"
    audit_files: ClassVar = ("decoder",)

    covariance: Literal["diagonal", "full"] = derived(
        lambda given: "diagonal" if given["public"] is None else "full"
    )
    """"diagonal", as in the paper, or "full" along `axes`. By default "full" if there are public images, which
    determine the axes; otherwise "diagonal"."""
    axes: Count = 16
    """Number of axes of a full covariance. On public photographs (docs/mge.md) 16 gave the best results from ε = 0.1 to
    1, and 32 at ε = 10."""
    public: str | None = None
    """Path of public images, whose principal axes are used; None for random axes, which work only if there
    are many."""
    public_records: Count = 10_000
    """Largest number of public images that are encoded."""
    per_class: bool = True
    """Whether there is a Gaussian for each label. If not, labels are drawn independently of the image."""
    floor: Annotated[float, Within(gt=0, le=1), "a positive number, at most 1"] = 1e-6
    """Smallest variance. Features have norm 1, so each of their d numbers has a mean square of 1/d. The default is
    small relative to that."""
    mean_share: Share = 1.0
    """Share of the budget for the mean."""
    second_share: Share = 1.0
    """Share of the budget for the second moment."""
    counts_share: Share = 0.05
    """Share of the budget for the counts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", astuple(self.shape))
        if self.public is not None and self.covariance == "diagonal":
            raise OptionError(
                f"public={self.public!r}: public images are for the axes of a full "
                "covariance; leave them out, or covariance='diagonal'."
            )

    # What is asked.

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of features and of their second moments.

        Reads the public images, if there are any.
        """
        return self._embeddings_along(schema, self.public)

    def stand_ins(self, schema: Schema) -> dict[str, Embedding] | None:
        """Returns sums along random axes, from which the noise can be planned without reading the public images."""
        if self.public is None:
            return None
        return self._embeddings_along(schema, None)

    def _embeddings_along(
        self, schema: Schema, public: str | None
    ) -> dict[str, Embedding]:
        """Returns the sums of features and of their second moments.

        Args:
            schema: Public schema of the images.
            public: Public images whose principal axes a full covariance has; None for
                random ones.
        """
        check_image_schema(schema, self.shape, labelled=False)
        encoding = self.encoding()
        first: Perceptual | Compression = encoding
        second: FeatureMap = Squares(of=encoding)
        if self.covariance == "full":
            self._check_axes(encoding)
            axes = self._axes(schema, public)
            first = Compression(of=encoding, axes=axes.values)
            second = OuterProducts(of=first)
        return {
            MEAN: Embedding(first, self.mean_share, per_class=self.per_class),
            SECOND: Embedding(second, self.second_share, per_class=self.per_class),
        }

    def _check_axes(self, encoding: Perceptual) -> None:
        if self.axes > encoding.dim:
            raise OptionError(
                f"axes={self.axes}: a feature has {encoding.dim} numbers only; ask for "
                "as many at most."
            )

    def _axes(self, schema: Schema, public: str | None) -> Axes:
        """Returns the axes of a full covariance; those of public images are read once."""
        if public is None:
            return self._read_axes(schema, None)
        return once(self, schema, lambda: self._read_axes(schema, public))

    def _read_axes(self, schema: Schema, public: str | None) -> Axes:
        return public_axes(
            public,
            schema,
            self.encoding(),
            self.axes,
            most=self.public_records,
            seed=self.seed,
        )

    def check_public_records(self) -> None:
        """Does nothing, because random axes need no public images."""

    def file_digests(self) -> dict[str, str]:
        """Returns the SHA-256 of encoder and decoder; refuses a decoder that does not fit."""
        return self.encoder_and_decoder_digests()

    def facts_beside_settings(self, schema: Schema) -> dict[str, Any]:
        """Returns the facts about the axes of a full covariance, for the certificate."""
        if self.covariance == "diagonal":
            return {}
        return {"axes": self._axes(schema, self.public).facts}

    # What follows from the answers.

    def model(self, release: Release) -> DecodedGaussian:
        """Returns the Gaussians, with the decoder of features that are drawn from them."""
        from noisegate_images.training.target import read_target
        from noisegate_papers.models.decoded import DecodedGaussian

        return DecodedGaussian(
            source=self.gaussians(release),
            decoder=self.checked_decoder(),
            weights=read_target(release, counts=COUNTS).weights,
            labelled=bool(release.schema.layout.classes),
        )

    def gaussians(self, release: Release) -> FeatureGaussians:
        """Returns the distributions of features in a release.

        Raises:
            ModelError: if the public images are not those of the release.
        """
        from noisegate_images.training.target import read_target
        from noisegate_papers.training.gaussians import feature_gaussians

        target = read_target(release, counts=COUNTS)
        if self.per_class:
            moments = {name: target.means[name] for name in (MEAN, SECOND)}
        else:
            moments = {
                name: release.values[name].T / target.records for name in (MEAN, SECOND)
            }
        axes = None
        if self.covariance == "full":
            stated_facts = release.certificate.public
            axes = self._axes(release.schema, self.public).checked(
                stated_facts, self.public
            )
        return feature_gaussians(
            moments[MEAN],
            moments[SECOND],
            axes=axes,
            floor=self.floor,
            nonnegative=self.encoding().nonnegative,
        )
