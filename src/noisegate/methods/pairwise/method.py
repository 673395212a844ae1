"""Pairwise embeddings: noisy counts of all pairs of columns, and a mixture of products that matches them.

The vector of a record is the indicator of its cell in every pair of (binned) columns, in each class of the label: the
second moment of its one-hot code. Three rounds in one plan: fine histograms of numeric columns, from which cells are
cut; in wide tables a coarse look at all pairs, from which some are chosen; then counts, one-way tables and pairs.

The family is that of RAP (Aydore et al. 2021), GEM (Liu, Vietri and Wu 2021) and PrivSyn (Zhang et al. 2021): fixed
low-order marginals under one Gaussian mechanism, with a model fitted by gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, Self

from noisegate.errors import OptionError
from noisegate.methods.fitted import Fitted
from noisegate.methods.from_json import method_from_json
from noisegate.methods.numbers import check_groups
from noisegate.methods.pairwise.design import (
    COARSE,
    COUNTS,
    HISTOGRAMS,
    PAIRS,
    SCREEN,
    SINGLES,
    Design,
    columns_named,
)
from noisegate.privacy.plan import Budget, CalibratedPlan, Plan
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.seeds import check_seed

if TYPE_CHECKING:
    from noisegate.fitting.mixture import MixtureFit, MixtureSettings
    from noisegate.gate.gate import Gate
    from noisegate.synthesizer import Synthesizer

# Above this many columns pairs are chosen instead of all being measured.
WIDE = 40
# Up to this many columns a numeric one gets the full number of cells.
_NARROW = 15
_WORDS = ("auto", "all", "chosen", "none")


@dataclass(frozen=True, kw_only=True)
class Pairwise(Fitted):
    """Settings of the pairwise method; none of them depends on private data.

    Attributes:
        cells: Cells of a numeric column, about; None for a number that follows from ε and the number of columns.
        pairs: "all", "chosen" by a coarse noisy look, "none" for one-way tables only, a list of pairs of column names
            (a workload), or "auto": all, and in tables of more than 40 columns chosen.
        most_pairs: How many pairs are chosen at most.
        triples: Lists of three column names, measured besides.
        histograms_share: Budget share of the histograms, half of it for the coarse ones.
        screen_share: Budget share of the coarse look at pairs.
        counts_share: Budget share of the class counts.
        one_way_share: Budget share of the one-way tables.
        pairs_share: Budget share of pairs and triples.
        fit_options: Changes to `noisegate.fitting.mixture.MixtureSettings`; they cannot change the privacy.
        seed: Of the public randomness: the fit's first components. Never of the private noise.
    """

    cells: int | None = None
    pairs: str | tuple[tuple[str, str], ...] = "auto"
    most_pairs: int = 1000
    triples: tuple[tuple[str, str, str], ...] = ()
    histograms_share: float = 0.1
    screen_share: float = 0.1
    counts_share: float = 0.01
    one_way_share: float = 0.2
    pairs_share: float = 0.7
    fit_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    name: Literal["pairwise"] = field(default="pairwise", init=False)

    def __post_init__(self) -> None:
        check_seed(self.seed)
        for option, least in (("cells", 2), ("most_pairs", 1)):
            value = getattr(self, option)
            if option == "cells" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"{option}={value!r} must be a whole number, {least} or more.")
        for option in ("histograms_share", "screen_share", "counts_share", "one_way_share", "pairs_share"):
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise OptionError(f"{option}={value!r} must be a positive number.")
        if not isinstance(self.fit_options, Mapping):
            raise OptionError(f"fit_options={self.fit_options!r} must map names of MixtureSettings to values.")
        if isinstance(self.pairs, str):
            if self.pairs not in _WORDS:
                raise OptionError(f"pairs={self.pairs!r} is not known; choose one of {', '.join(_WORDS)}, or a list.")
        else:
            object.__setattr__(self, "pairs", _names("pairs", self.pairs, 2))
        object.__setattr__(self, "triples", _names("triples", self.triples, 3))

    def design(self, schema: Schema, epsilon: float) -> Design:
        """Returns what is asked about a table at a given ε.

        Raises:
            OptionError: if a column that the settings name is not in the schema.
        """
        layout = schema.layout
        cells = self.cells or cells_for(len(layout.numeric) + len(layout.coded), epsilon)
        bare = Design(layout=layout, cells=cells, screened=False, most_pairs=self.most_pairs, pairs=())
        # The label is in every table anyway where its classes are told apart.
        triples = tuple(
            tuple(column for column in columns_named(layout, names, "triples") if column != bare.label)
            for names in self.triples
        )
        bare = replace(bare, triples=tuple(dict.fromkeys(triples)))
        chosen = self.pairs == "chosen" or (self.pairs == "auto" and len(bare.columns) > WIDE)
        if self.pairs == "none":
            return bare
        if isinstance(self.pairs, str):
            check_groups(len(bare.columns), f"pairs={self.pairs!r}", "pairs='none', or a list of those that matter")
        if chosen and len(bare.columns) > 1:
            return replace(bare, screened=True, pairs=None)
        if isinstance(self.pairs, str):
            return replace(bare, pairs=tuple(combinations(bare.columns, 2)))
        named = [columns_named(layout, names, "pairs") for names in self.pairs]
        return replace(bare, pairs=tuple(dict.fromkeys(pair for pair in named if bare.label not in pair)))

    def plan(self, schema: Schema, budget: Budget) -> CalibratedPlan:
        """Returns the calibrated plan: what will be asked, and with what noise. Reads no data."""
        shares = {
            HISTOGRAMS: self.histograms_share / 2,
            COARSE: self.histograms_share / 2,
            SCREEN: self.screen_share,
            COUNTS: self.counts_share,
            SINGLES: self.one_way_share,
            PAIRS: self.pairs_share,
        }
        return Plan(questions=self.design(schema, budget.epsilon).questions(shares)).calibrate(budget)

    def ask(self, gate: Gate) -> Release:
        """Returns the release: two or three passes over the records, the only times that they are used."""
        plan = self.plan(gate.schema, gate.budget)
        design = self.design(gate.schema, gate.budget.epsilon)
        stds = {release.question.name: release.noise_std_natural for release in plan.releases}
        values: dict[str, Any] = {}
        with gate.open(plan, method=self.name, public={"settings": self.to_json()}) as session:
            if design.bought:
                values |= session.ask(design.histograms())
            if design.screened:
                values |= session.ask({SCREEN: design.screen(values, stds)})
            session.ask(design.final(values, stds))
        return session.release()

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent.

        Raises:
            OptionError: if the device is not here or a fit option is unusable.
        """
        from noisegate.fitting.device import choose_device

        choose_device(device)
        self.fit_settings()

    def fitting(self, release: Release, *, device: str = "auto") -> MixtureFit:
        """Returns the fit of a release, ready to run, to save and to restore."""
        from noisegate.fitting.device import choose_device
        from noisegate.fitting.mixture import MixtureFit

        design = self.design(release.schema, release.certificate.epsilon)
        bins, tables = design.read(release)
        sizes = (*(one.size for one in bins), *(column.size for column in design.layout.coded))
        return MixtureFit(
            tables, sizes, design.label, self.fit_settings(), seed=self.seed, device=choose_device(device)
        )

    def synthesizer(self, release: Release, fitting: MixtureFit) -> Synthesizer:
        """Returns the synthesizer that a fit has reached."""
        from noisegate.methods.pairwise.model import mixture_of
        from noisegate.synthesizer import FitSummary, Synthesizer

        design = self.design(release.schema, release.certificate.epsilon)
        return Synthesizer(
            release=release,
            model=mixture_of(design, release, fitting),
            summary=FitSummary(step=fitting.step, steps=fitting.steps, discrepancy=fitting.discrepancy),
        )

    def fit_settings(self) -> MixtureSettings:
        """Returns how to fit: the defaults with `fit_options` on top."""
        from noisegate.fitting.mixture import MixtureSettings

        try:
            return replace(MixtureSettings(), **self.fit_options)
        except TypeError as error:
            raise OptionError(f"fit_options={dict(self.fit_options)!r}: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object."""
        settings = asdict(self)
        settings.pop("name")
        pairs = self.pairs if isinstance(self.pairs, str) else [list(pair) for pair in self.pairs]
        return settings | {"pairs": pairs, "triples": [list(triple) for triple in self.triples]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object.

        Raises:
            ModelError: if a setting is missing or not known.
        """
        return method_from_json(cls, data)


def cells_for(columns: int, epsilon: float) -> int:
    """Returns how many cells a numeric column is cut into: fewer at small ε, and in wide tables, where noise is more.

    Chosen on public tables and simulated ones; see docs/choosing.md.
    """
    full = 24 if epsilon < 3 else 36
    return max(round(full * min(1.0, math.sqrt(_NARROW / columns))), 4)


def _names(option: str, value: Any, count: int) -> tuple[tuple[str, ...], ...]:
    fits = isinstance(value, list | tuple) and all(
        isinstance(names, list | tuple) and len(names) == count and all(isinstance(name, str) for name in names)
        for names in value
    )
    if not fits:
        raise OptionError(f"{option}={value!r} must be a list of lists of {count} column names.")
    return tuple(tuple(names) for names in value)
