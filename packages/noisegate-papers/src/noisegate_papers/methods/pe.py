"""Private Evolution: private images vote for public candidates, and the best candidates are the model (G-13, G-25).

Lin, Gopi, Kulkarni, Nori and Yekhanin (ICLR 2024), https://arxiv.org/abs/2305.15560, algorithms 1 and 2. The paper uses
a diffusion model. Here, the first candidates are public images or simulated shapes, and they are varied by operations
on pixels or by a public decoder. An image votes for the nearest candidate with its label, in the features of a public
map. For deviations see [differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from noisegate.answers.design import COUNTS
from noisegate.errors import OptionError
from noisegate.methods.abilities import (
    ClosedForm,
    UsesPublicFiles,
    UsesPublicRecords,
)
from noisegate.methods.method import Method
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan, Query, plan_sums
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import Counts, FeatureMap
from noisegate.schema import Schema
from noisegate.settings import (
    Count,
    Relative,
    Seed,
    Settings,
    TwoOrMore,
    Unit,
    derived,
    path_or_table,
    settings,
)
from noisegate_images.methods.public_network import EncodedImages
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.public_reference import (
    PublicReference,
    Source,
    check_same,
    once,
    read_reference,
)
from noisegate_papers.methods.vote_rounds import (
    Candidates,
    RoundCount,
    round_names,
    vote_queries,
)
from noisegate_papers.queries.thumbnails import BlurredPixels

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate_papers.models.record_sets import WeightedReference
    from noisegate_papers.training.image_evolution import ImageEvolution


@register("pe")
@settings
class PrivateEvolution(
    EncodedImages,
    Settings,
    ClosedForm,
    Method,
    UsesPublicFiles,
    UsesPublicRecords,
):
    """Private Evolution: public candidates, selected and varied by noisy votes (Lin et al. 2024).

    Examples:
        >>> from noisegate import Budget, PrivateEvolution
        >>> from noisegate.schema import pixel_schema
        >>> plan = PrivateEvolution(image=(8, 8, 1), rounds=2).plan(pixel_schema(8, 8), Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'counts': (1, 26.38), 'votes-1': (4000, 5.33), 'votes-2': (4000, 5.33)}
    """

    audit_on = "images"
    audit_settings: ClassVar[Mapping[str, Any]] = {
        "rounds": 2,
        "candidates": 50,
        "images": 100,
    }

    public: Source = path_or_table()
    """Path of public images of the same size, in any form that private images may have, or a table in memory; None if
    the method needs none. They are part of the synthetic images, so they must not contain a private image."""
    references: TwoOrMore = 10_000
    """Largest number of public images that are used, drawn at random."""
    public_labels: bool = False
    """Whether the public images have labels of the schema."""
    seed: Seed = 0
    """Seed for non-private randomness. The noise that protects the records cannot be seeded."""
    features: Literal["pixels", "encoder"] = derived(
        lambda given: (
            "encoder"
            if given["image"] is not None and given["image"][2] > 1
            else "pixels"
        )
    )
    """Features in which images are compared: "pixels", slightly blurred, by default for grey images; or "encoder", the
    features of the frozen network, by default for colour images."""
    variations: Literal["operations", "decoder"] = "operations"
    """How candidates are varied: by "operations" on pixels (turns, shifts, bends, blends, contrast, noise), or by a
    "decoder" of features near their own."""
    variation: Unit = 1.0
    """Strength of the first variations. It decreases to 0."""
    candidates: Candidates = 4000
    """Largest number of candidates of all labels together. There are never more candidates than the number of records
    divided by the standard deviation of the noise on a vote."""
    rounds: RoundCount = 4
    """Number of rounds of votes."""
    images: Count = 10_000
    """Approximate number of images that the model samples from: candidates by their votes, and variations of them."""
    counts_share: Relative = 0.02
    """Share of the budget for the number of images of each label."""
    votes_share: Relative = 0.98
    """Share of the budget for all votes."""

    # The public images.

    def check_public_records(self) -> None:
        """Does nothing, because simulated shapes can replace public images."""

    def reference(self, schema: Schema) -> PublicReference | None:
        """Returns the public images, read once, or None.

        Raises:
            DataError: if they cannot be read, or do not fit.
        """
        if self.public is None:
            return None
        return once(
            self,
            schema,
            lambda: read_reference(
                self.public,
                schema,
                most=self.references,
                labelled=self.public_labels and schema.layout.label is not None,
                seed=self.seed,
            ),
        )

    def facts_beside_settings(self, schema: Schema) -> dict[str, Any]:
        """Returns the facts about the public images, for the certificate."""
        reference = self.reference(schema)
        return {} if reference is None else {"reference": reference.to_json()}

    def file_digests(self) -> dict[str, str]:
        """Returns the SHA-256 of the encoder and the decoder, if they are used."""
        digests = {}
        if self.features == "encoder":
            digests["sha256"] = self.encoder().sha256
        if self.variations == "decoder":
            digests["decoder_sha256"] = self.checked_decoder().digest
        return digests

    # What is asked.

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Returns the calibrated plan. Reads no data."""
        check_image_schema(schema, self.shape, labelled=False)
        class_count = schema.layout.classes or 1
        if class_count > self.candidates:
            raise OptionError(
                f"candidates={self.candidates}: there are {class_count} labels; ask for "
                "one each at least."
            )
        counts = Query.of(
            COUNTS, Counts(), columns=class_count, share=self.counts_share
        )
        votes = vote_queries(self.rounds, self.candidates, self.votes_share)
        return plan_sums(budget, (counts, *votes))

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Releases the counts of labels, in one pass over the records, and the votes, in one pass for each round."""
        self.check_gate(gate)
        if plan is None:
            plan = self.plan(gate.schema, gate.budget)
        names = round_names(self.rounds)
        noise_std = plan.release(names[0]).noise_std_natural
        label = gate.schema.layout.label
        public_facts = self.public_facts(gate.schema)
        with gate.open(plan, method=self.name, public=public_facts) as session:
            values: dict[str, Any] = session.ask({COUNTS: Counts()})
            evolution = self.evolution(gate.schema, values[COUNTS][0], noise_std)
            for number, name in enumerate(names):
                if number > 0:
                    evolution.select(values[names[number - 1]][:, 0])
                votes = evolution.votes(self.compared(), label)
                values |= session.ask({name: votes})
        return session.release()

    def compared(self) -> FeatureMap:
        """Returns the map from an image to the features in which images are compared."""
        if self.features == "pixels":
            return BlurredPixels(image=self.shape)
        return self.encoding()

    def evolution(
        self, schema: Schema, counts: Any, noise_std: float
    ) -> ImageEvolution:
        """Returns the candidates of the first round; reads the public images, if there are any.

        Args:
            schema: Public schema of the images.
            counts: Noisy number of images of each label, (labels,).
            noise_std: Standard deviation of the noise on a vote.
        """
        from noisegate_papers.training.image_evolution import (
            Beginning,
            DecodedVariations,
            ImageEvolution,
            varied,
        )

        reference = self.reference(schema)
        beginning = Beginning(
            self.shape.axes,
            None if reference is None else reference.records,
            self.public_labels,
        )
        if self.variations == "operations":
            vary: Any = varied
        else:
            vary = DecodedVariations(self.encoding(), self.checked_decoder())
        return ImageEvolution(
            counts,
            beginning,
            vary,
            candidates=self.candidates,
            rounds=self.rounds,
            variation=self.variation,
            noise_std=noise_std,
            random=np.random.Generator(np.random.Philox(self.seed)),
        )

    # What follows from the answers.

    def model(self, release: Release) -> WeightedReference:
        """Returns the last candidates, weighted by their votes.

        Raises:
            ModelError: if the public images are not those of the release.
        """
        facts = self.facts_beside_settings(release.schema)
        check_same(facts, release.certificate.public)
        *earlier_names, last_name = round_names(self.rounds)
        noise_std = release.noise_std[round_names(self.rounds)[0]]
        evolution = self.evolution(release.schema, release.values[COUNTS][0], noise_std)
        for name in earlier_names:
            evolution.select(release.values[name][:, 0])
        last_votes = release.values[last_name][:, 0]
        return evolution.model(last_votes, self.images, release.schema.layout.label)
