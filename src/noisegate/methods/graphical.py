"""AIM and MST: noisy marginals chosen on the way, and the graphical model that agrees with them, through OpenDP.

MST (McKenna, Miklau, Sheldon 2021) measures all single columns and the pairs of a spanning tree that its model explains
worst. AIM (McKenna, Mullins, Sheldon, Miklau 2022) goes on choosing, up to triples, while the budget lasts and its
model is small. OpenDP's `opendp.extras.mbi` runs them at the gate, which holds all records in memory; the model is
then fitted to what was released, and can be drawn from without OpenDP.

Numeric columns become cells between public cuts: one for each step where there are few, else equal widths.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from noisegate.errors import OptionError
from noisegate.features.binning import NumericBins
from noisegate.methods.fitted import Fitted
from noisegate.methods.from_json import method_from_json
from noisegate.methods.numbers import check_groups
from noisegate.privacy.marginal_plan import MarginalPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Continuous, Layout, Schema
from noisegate.schema.columns import NumericColumn
from noisegate.seeds import check_seed

if TYPE_CHECKING:
    from noisegate.fitting.graphical import GraphicalFit
    from noisegate.gate.gate import Gate
    from noisegate.synthesizer import Synthesizer

MOST_ROUNDS = 4000
Tables = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Marginals(Fitted):
    """What AIM and MST have in common; none of the settings depends on private data.

    Attributes:
        bins: Most cells of a numeric column, beside the one for missing values.
        iterations: Steps of mirror descent, each time that a model is fitted to noisy marginals.
        seed: Unused, since nothing here draws public randomness before sampling; accepted like by other methods.
    """

    bins: int = 32
    iterations: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        for option, least in (("bins", 2), ("iterations", 1)):
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"{option}={value!r} must be a whole number, {least} or more.")

    @property
    @abstractmethod
    def name(self) -> str:
        """What the method is called."""

    @abstractmethod
    def plan(self, schema: Schema, budget: Budget) -> MarginalPlan:
        """Returns what may be spent on which tables. Reads no data."""

    def cells(self, layout: Layout) -> tuple[NumericBins, ...]:
        """Returns the cells of each numeric column."""
        return tuple(equal_bins(column, self.bins) for column in layout.numeric)

    def sizes(self, layout: Layout) -> tuple[int, ...]:
        """Returns the number of cells of each column, numeric columns first."""
        return (*(bins.size for bins in self.cells(layout)), *(column.size for column in layout.coded))

    def tables(self, sizes: tuple[int, ...], degree: int, most_cells: float = math.inf) -> Tables:
        """Returns the tables to choose from; see `tables_up_to`.

        Raises:
            OptionError: if the columns have too many.
        """
        informative = sum(size > 1 for size in sizes)
        check_groups(informative, self.name, "another method, such as pairwise with pairs='none'", size=degree)
        return tables_up_to(sizes, degree=degree, most_cells=most_cells)

    def ask(self, gate: Gate) -> Release:
        """Returns the release: the one time that private records are used. Holds all of them in memory."""
        return gate.marginals(
            self.plan(gate.schema, gate.budget),
            self.cells(gate.schema.layout),
            method=self.name,
            public={"settings": self.to_json()},
        )

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent.

        Args:
            device: As for other methods; these compute on the CPU.

        Raises:
            OptionError: if the device is not here.
            MissingExtraError: if OpenDP's optional packages are not here.
        """
        from noisegate.fitting.device import choose_device
        from noisegate.gate.marginals import check_extra

        choose_device(device)
        check_extra()

    def fitting(self, release: Release, *, device: str = "auto") -> GraphicalFit:
        """Returns the fit of a release, ready to run; always on the CPU."""
        from noisegate.fitting.graphical import GraphicalFit, read_marginals

        return GraphicalFit(
            self.sizes(release.schema.layout), read_marginals(release, self.name), iterations=self.iterations
        )

    def synthesizer(self, release: Release, fitting: GraphicalFit) -> Synthesizer:
        """Returns the synthesizer that a fit has reached."""
        from noisegate.fitting.loop import FitState
        from noisegate.generators.graphical import GraphicalModel
        from noisegate.synthesizer import FitSummary, Synthesizer

        layout = release.schema.layout
        model = GraphicalModel(
            bins=self.cells(layout), coded=tuple(column.size for column in layout.coded), factors=fitting.factors
        )
        state = FitState(step=fitting.step, steps=fitting.steps, discrepancy=fitting.discrepancy)
        return Synthesizer(release=release, model=model, summary=FitSummary(**asdict(state)))

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object."""
        settings = asdict(self)
        settings.pop("name")
        return settings

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the settings in a JSON object.

        Raises:
            ModelError: if a setting is missing or not known.
        """
        return method_from_json(cls, data)


@dataclass(frozen=True, kw_only=True)
class MST(Marginals):
    """All single columns and a spanning tree of pairs; about a minute for 30,000 records of 15 columns."""

    name: Literal["mst"] = field(default="mst", init=False)

    def plan(self, schema: Schema, budget: Budget) -> MarginalPlan:
        """Returns what may be spent on which tables. Reads no data."""
        sizes = self.sizes(schema.layout)
        return MarginalPlan.calibrate(
            budget,
            name=self.name,
            algorithm="MST",
            options={"iterations": self.iterations},
            sizes=sizes,
            candidates=self.tables(sizes, 2),
        )


@dataclass(frozen=True, kw_only=True)
class AIM(Marginals):
    """Tables of up to `degree` columns, chosen while the budget lasts; minutes to hours, mostly for fitting its model.

    Attributes:
        degree: Most columns of a table.
        max_model_mb: Largest model, MB; the fit's time grows with it. OpenDP's default.
        rounds: Most rounds of choosing that the budget is laid out for; None for OpenDP's default, 16 for each column.
    """

    degree: int = 3
    max_model_mb: float = 80.0
    rounds: int | None = None

    name: Literal["aim"] = field(default="aim", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.degree, bool) or self.degree not in (2, 3, 4):
            raise OptionError(f"degree={self.degree!r} must be 2, 3 or 4.")
        if isinstance(self.max_model_mb, bool) or not isinstance(self.max_model_mb, int | float):
            raise OptionError(f"max_model_mb={self.max_model_mb!r} must be a number.")
        # The upper ends are those of the proof in docs/guarantees.md.
        if not 0 < self.max_model_mb <= 250:
            raise OptionError(f"max_model_mb={self.max_model_mb!r} must lie above 0 and not above 250.")
        whole = isinstance(self.rounds, int) and not isinstance(self.rounds, bool)
        if self.rounds is not None and not (whole and 1 <= self.rounds <= MOST_ROUNDS):
            raise OptionError(f"rounds={self.rounds!r} must be a whole number from 1 to {MOST_ROUNDS}.")

    def plan(self, schema: Schema, budget: Budget) -> MarginalPlan:
        """Returns what may be spent on which tables. Reads no data."""
        sizes = self.sizes(schema.layout)
        rounds = self.rounds or min(16 * sum(size > 1 for size in sizes), MOST_ROUNDS)
        return MarginalPlan.calibrate(
            budget,
            name=self.name,
            algorithm="AIM",
            options={"iterations": self.iterations, "max_size": float(self.max_model_mb), "rounds": rounds},
            sizes=sizes,
            # A model holds 8 bytes a cell, so larger tables could never be chosen.
            candidates=self.tables(sizes, self.degree, most_cells=self.max_model_mb * 2**17),
        )


def tables_up_to(sizes: tuple[int, ...], *, degree: int, most_cells: float = float("inf")) -> Tables:
    """Returns all tables of `degree` columns with more than one cell; where too large, their parts that are not."""
    columns = [column for column, size in enumerate(sizes) if size > 1]
    tables: list[tuple[int, ...]] = []
    covered: set[tuple[int, ...]] = set()
    for count in range(min(degree, len(columns)), 0, -1):
        for table in combinations(columns, count):
            if table in covered or (count > 1 and math.prod(sizes[column] for column in table) > most_cells):
                continue
            tables.append(table)
            covered |= {part for n in range(1, count) for part in combinations(table, n)}
    return tuple(tables)


def equal_bins(column: NumericColumn, most: int) -> NumericBins:
    """Returns cells from public knowledge alone: one for each step if that makes at most `most`, else equal widths."""
    width = most if isinstance(column, Continuous) else column.steps[1] - column.steps[0]
    cuts = (np.arange(width) + 0.5) / width if width < most else np.arange(1, most) / most
    return NumericBins(cuts=tuple(cuts.tolist()), nullable=column.missing)
