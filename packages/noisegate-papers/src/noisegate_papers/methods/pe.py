"""Private Evolution: private records vote for public candidates, of which the best make the model (G-13, G-25).

Of images: Lin, Gopi, Kulkarni, Nori and Yekhanin (ICLR 2024), https://arxiv.org/abs/2305.15560, algorithms 1 and 2. Of
tables: Swanberg et al. (2026), https://arxiv.org/abs/2606.08259. What differs is in docs/differences.md.

Private Evolution of tables and images: private records vote for public candidates, of
which the best make the model.

Lin, Gopi, Kulkarni, Nori and Yekhanin (ICLR 2024), https://arxiv.org/abs/2305.15560,
algorithms 1 and 2. Where the paper has a diffusion model, one begins here with public
images or simulated shapes, and varies them by operations on pixels or by a public
decoder. A vote goes to the nearest candidate of the image's label by what a public map
sees.

For tables: Swanberg et al. (2026), https://arxiv.org/abs/2606.08259. Candidates are
drawn from one-way tables that are measured first, one round of votes weights them, and
weights are brought back to the one-way tables; further rounds keep the half with the
most votes and vary it. In each round a record adds 1 to one candidate (G-25), however
candidates follow from earlier answers (G-13). What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from noisegate.answers.design import COARSE, COUNTS, HISTOGRAMS, SINGLES, Design
from noisegate.answers.rounds import Answered, AnswersSoFar
from noisegate.answers.rounds import Rounds as DesignRounds
from noisegate.errors import OptionError
from noisegate.methods.abilities import ClosedForm
from noisegate.methods.method import Method
from noisegate.methods.pairwise import DESIGN, Pairwise
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan, Query, plan_sums
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import Counts, FeatureMap
from noisegate.schema import Schema
from noisegate.settings import (
    Count,
    Positive,
    Relative,
    Seed,
    TwoOrMore,
    Unit,
    Within,
    derived,
    settings,
)
from noisegate_images.methods.matched import EncodedImages
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.public_reference import (
    PublicReference,
    Source,
    check_same,
    once,
    read_reference,
)
from noisegate_papers.queries.thumbnails import BlurredPixels

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.models.mixture import Mixture
    from noisegate_papers.models.record_sets import WeightedReference
    from noisegate_papers.training.evolution import Evolution
    from noisegate_papers.training.image_evolution import ImageEvolution

MOST_CANDIDATES = 20_000
Candidates = Annotated[
    int,
    Within(ge=2, le=MOST_CANDIDATES),
    f"a whole number from 2 to {MOST_CANDIDATES:,}; time grows with it",
]
Rounds = Annotated[
    int, Within(ge=1, le=1000), "a whole number from 1 to 1000"
]  # rounds of votes


@register("tab-pe")
@settings
class TabPE(ClosedForm, Method):
    """Tab-PE: Private Evolution for tables (Swanberg et al. 2026).

    Examples:
        >>> from noisegate import Budget, Schema, TabPE
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=9), Boolean(name="ill")))
        >>> plan = TabPE(rounds=2).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'counts': (1, 35.0), 'one-way': (12, 6.74), 'votes-1': (4000, 6.39), 'votes-2': (4000, 6.39)}
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {"rounds": 2, "candidates": 50}
    rules_version: ClassVar = DESIGN

    cells: TwoOrMore | None = None
    """Cells of a numeric column, about; None for a number that follows from ε and the number of columns."""
    candidates: Candidates = 4000
    """Most candidates; there are no more than records for each standard deviation of the noise on a vote."""
    rounds: Rounds = 1
    """Rounds of votes."""
    variation: Unit = 0.5
    """Part of a candidate's cells that is drawn anew after the first round; it falls to none in the last."""
    label_weight: Positive = 1.0
    """How far apart labels are, beside the levels of other columns."""
    smoothing: Unit = 0.2
    """Part of a drawn record's cells that follow the one-way tables of its label, and not its candidate."""
    histograms_share: Relative = 0.12
    """Budget share of the histograms, half of it for the coarse ones."""
    counts_share: Relative = 0.01
    """Budget share of the class counts."""
    one_way_share: Relative = 0.27
    """Budget share of the one-way tables."""
    votes_share: Relative = 0.6
    """Budget share of all votes."""
    seed: Seed = 0
    """Seed for non-private randomness: candidates and their variations. Never of the private noise."""

    def design(
        self, schema: Schema, epsilon: float, *, version: int = DESIGN
    ) -> Design:
        """Returns what is asked about a table before the votes, by the rules of a version of the pairwise method."""
        return Pairwise(cells=self.cells, pairs="none").design(
            schema, epsilon, version=version
        )

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Returns the calibrated plan, with the design in it. Reads no data."""
        shares = dict.fromkeys((HISTOGRAMS, COARSE), self.histograms_share / 2)
        shares |= {
            COUNTS: self.counts_share,
            SINGLES: self.one_way_share,
        }
        design = self.design(schema, budget.epsilon)
        queries = (*design.queries(shares), *_votes(self))
        return plan_sums(budget, queries, design=design)

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Returns the release: a pass over the records for each round, and one or two before the first."""
        plan = plan or self.plan(gate.schema, gate.budget)
        stds = {
            release.query.name: release.noise_std_natural for release in plan.releases
        }
        values: dict[str, Any] = {}
        with gate.open(
            plan, method=self.name, public=self.public_facts(gate.schema)
        ) as session:
            if plan.design.histogram_columns:
                values |= session.ask(plan.design.histogram_maps())
            last_maps = DesignRounds(
                plan.design, AnswersSoFar(values, stds)
            ).last_maps()
            values |= session.ask(last_maps)
            evolution = self.evolution(plan.design, AnswersSoFar(values, stds))
            for place, name in enumerate(_names(self)):
                if place:
                    evolution.select(values[_names(self)[place - 1]][:, 0])
                values |= session.ask({name: evolution.votes})
        return session.release()

    def evolution(self, design: Design, answers: Answered) -> Evolution:
        """Returns the candidates of the first round, which follow from what was released before it."""
        from noisegate_papers.training.evolution import Evolution, OneWay

        names, votes = (
            ("candidates", "rounds", "variation", "label_weight", "seed"),
            _names(self)[0],
        )
        settings = {name: getattr(self, name) for name in names} | {
            "noise_std": answers.noise_std[votes]
        }
        found = Evolution(one := OneWay.read(design, answers), **settings)
        asked = len(answers.values.get(votes, found.candidates))
        return (
            found
            if asked == len(found.candidates)
            else Evolution(one, **settings, distinct=False)
        )

    def model(self, release: Release) -> Mixture:
        """Returns the mixture that a release says: the candidates of its last round, weighted by their votes."""
        certificate = release.certificate
        design = self.design(
            release.schema,
            certificate.epsilon,
            version=certificate.public.get("design", DESIGN),
        )
        evolution, last = self.evolution(design, release), _names(self)[-1]
        for name in _names(self)[:-1]:
            evolution.select(release.values[name][:, 0])
        return evolution.mixture(release.values[last][:, 0], smoothing=self.smoothing)


@register("pe")
@settings
class PrivateEvolution(ClosedForm, EncodedImages):
    """Private Evolution: public candidates, selected and varied by noisy votes (Lin et al. 2024).

    Examples:
        >>> from noisegate import Budget, PrivateEvolution
        >>> from noisegate.schema import pixel_schema
        >>> plan = PrivateEvolution(image=(8, 8, 1), rounds=2).plan(pixel_schema(8, 8), Budget(epsilon=1.0))
        >>> {event.name: (event.coordinates, round(event.noise_multiplier, 2)) for event in plan.events}
        {'counts': (1, 26.38), 'votes-1': (4000, 5.33), 'votes-2': (4000, 5.33)}
    """

    audit_on: ClassVar[Literal["table", "images", "linked"]] = "images"
    audit_settings: ClassVar[Mapping[str, Any]] = {
        "rounds": 2,
        "candidates": 50,
        "images": 100,
    }

    public: Source = field(default=None, compare=False)
    """Public images of the same size, a path in any form that private ones may have, or a table in memory; None where
    the method does without. They are part of what is made, so they must hold no private one."""
    references: TwoOrMore = 10_000
    """How many of them are used at most, drawn at random."""
    public_labels: bool = False
    """Whether they have labels of the schema."""
    seed: Seed = 0
    """Seed for non-private randomness. Never of the private noise."""
    features: Literal["pixels", "encoder"] = derived(
        lambda given: (
            "encoder"
            if given["image"] is not None and given["image"][2] > 1
            else "pixels"
        )
    )
    """What images are compared by: "pixels", blurred a little, by default for grey ones; or "encoder", what the
    frozen network sees in them, by default for colour."""
    variations: Literal["operations", "decoder"] = "operations"
    """"operations" on pixels (turns, shifts, bends, blends, contrast, noise), or "decoder": what it draws near them."""
    variation: Unit = 1.0
    """How far the first variations go; it falls to none."""
    candidates: Candidates = 4000
    """Most candidates, of all labels; there are no more than records for each standard deviation of the noise."""
    rounds: Rounds = 4
    """Rounds of votes."""
    images: Count = 10_000
    """Images that the model draws from, about: candidates by their votes, and variations of these."""
    counts_share: Relative = 0.02
    """Budget share of the numbers of images of each label."""
    votes_share: Relative = 0.98
    """Budget share of all votes."""

    def reference(self, schema: Schema) -> PublicReference | None:
        """Returns the public images, read once, or None; a DataError if they cannot be read or do not fit."""
        if self.public is None:
            return None
        labelled = self.public_labels and schema.layout.label is not None
        asked: dict[str, Any] = {
            "most": self.references,
            "labelled": labelled,
            "seed": self.seed,
        }
        return once(self, schema, lambda: read_reference(self.public, schema, **asked))

    def reference_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns what a certificate says of the public images."""
        reference = self.reference(schema)
        return {} if reference is None else {"reference": reference.to_json()}

    def check_gate(self, gate: Gate) -> None:
        """See `Method`; a DataError if the public images are private ones too, by what their files hold."""
        super().check_gate(gate)
        check_image_schema(gate.schema, self.shape, labelled=False)
        if self.public is not None:
            gate.check_apart(self.public)
            self.reference(gate.schema)

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Returns the calibrated plan. Reads no data."""
        check_image_schema(schema, self.shape, labelled=False)
        classes = schema.layout.classes or 1
        if classes > self.candidates:
            raise OptionError(
                f"candidates={self.candidates}: there are {classes} labels; ask for one each at least."
            )
        counts = Query.of(COUNTS, Counts(), columns=classes, share=self.counts_share)
        return plan_sums(budget, (counts, *_votes(self)))

    def query(self, gate: Gate, plan: Plan | None = None) -> Release:
        """Returns the release: a pass over the records for the labels' counts, and one for each round."""
        self.check_gate(gate)
        plan, label = (
            plan or self.plan(gate.schema, gate.budget),
            gate.schema.layout.label,
        )
        noise_std = plan.release(_names(self)[0]).noise_std_natural
        with gate.open(
            plan, method=self.name, public=self.public_facts(gate.schema)
        ) as session:
            values: dict[str, Any] = session.ask({COUNTS: Counts()})
            evolution = self.evolution(gate.schema, values[COUNTS][0], noise_std)
            for place, name in enumerate(_names(self)):
                if place:
                    evolution.select(values[_names(self)[place - 1]][:, 0])
                values |= session.ask({name: evolution.votes(self.compared(), label)})
        return session.release()

    def compared(self) -> FeatureMap:
        """Returns the map from an image to what it is compared by."""
        return (
            BlurredPixels(image=self.shape)
            if self.features == "pixels"
            else self.encoding()
        )

    def evolution(
        self, schema: Schema, counts: Any, noise_std: float
    ) -> ImageEvolution:
        """Returns the candidates of the first round; reads the public images, if any."""
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
        vary = (
            varied
            if self.variations == "operations"
            else DecodedVariations(self.encoding(), self.checked_decoder())
        )
        random = np.random.Generator(np.random.Philox(self.seed))
        settings = {
            name: getattr(self, name) for name in ("candidates", "rounds", "variation")
        }
        return ImageEvolution(
            counts, beginning, vary, noise_std=noise_std, random=random, **settings
        )

    def model(self, release: Release) -> WeightedReference:
        """Returns the last candidates, drawn by their votes; a ModelError if the public images are others than then."""
        check_same(self.reference_facts(release.schema), release.certificate.public)
        noise_std, last = release.noise_std[_names(self)[0]], _names(self)[-1]
        evolution = self.evolution(release.schema, release.values[COUNTS][0], noise_std)
        for name in _names(self)[:-1]:
            evolution.select(release.values[name][:, 0])
        return evolution.model(
            release.values[last][:, 0], self.images, release.schema.layout.label
        )

    def check_fit(self, device: str) -> None:
        """See `Method`; an error if variations are asked of a decoder, and none fits."""
        super().check_fit(device)
        self._digests()

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings with the digests of what was taken as public, for the certificate."""
        return {
            "settings": self.to_json() | self._digests(),
            **self.reference_facts(schema),
        }

    def _digests(self) -> dict[str, str]:
        digests = {} if self.features == "pixels" else {"sha256": self.encoder().sha256}
        if self.variations == "decoder":
            digests["decoder_sha256"] = self.checked_decoder().digest
        return digests


def _names(method: TabPE | PrivateEvolution) -> tuple[str, ...]:
    return tuple(f"votes-{place + 1}" for place in range(method.rounds))


def _votes(method: TabPE | PrivateEvolution) -> tuple[Query, ...]:
    """Returns the queries of all rounds, each with an equal part of the votes' share."""
    share = method.votes_share / method.rounds
    fixed: dict[str, Any] = {
        "columns": 1,
        "norm": 1.0,
        "nonnegative": True,
        "adaptive": True,
    }
    return tuple(
        Query(name=name, dim=method.candidates, share=share, **fixed)
        for name in _names(method)
    )
