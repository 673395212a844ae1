"""Fits a mixture of product distributions to released contingency tables, and stops before it fits their noise.

Each class has components of its own. The expected counts of a class's pairs are one matrix product: with P the cells'
probabilities of every component, (K, D), and w the components' expected numbers of records, they are Pᵀ diag(w) P: the
second moment of its records. Columns are all but the label, their cells laid side by side: cell a of column i stands at
place offsets[i] + a of D.

How long to fit is found by a trial on noisier tables, judged by tables with independent noise (`split`): the step at
which the trial came nearest to what it could not see is the number of steps of the fit itself.

Related: RAP (Aydore et al. 2021), RAP++ (Vietri et al. 2022) and GEM (Liu, Vietri and Wu 2021) fit relaxed tables and
generators to noisy queries by gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisegate.devices import one_thread
from noisegate.features.binning import Histogram, NumericBins
from noisegate.models.mixture import Mixture, WithinCell
from noisegate.privacy.release import Release
from noisegate.schema import Continuous, NumericColumn
from noisegate.training.adam import Adam
from noisegate.training.checkpoint import FitState
from noisegate.training.fit import MixtureSettings
from noisegate.training.pairwise import Design, Table

if TYPE_CHECKING:
    from jaxtyping import Float

Floats = npt.NDArray[np.float64]

_TINY = float(np.finfo(float).tiny)
# The first steps bring the learning rate up.
_RISE = 10
# The trial ends when this many steps in a row have brought it no nearer.
_PATIENCE = 25


@dataclass(frozen=True, kw_only=True)
class ClassTables:
    """Tables with the label as their first axis.

    Attributes:
        sizes: Cells of each column but the label.
        pairs: For each class, noisy counts of the pairs that were released, above the diagonal, (classes, D, D).
        precision: One over their noise, 0 where no pair was released, (D, D).
        triples: Tables of three columns: (columns, (classes, …) counts, noise).
        singles: Noisy counts of each column's cells, the best that all tables together say, (classes, D).
        singles_std: Their noise, (D,).
        counts: Noisy number of records of each class, at least one noise standard deviation, (classes,).
    """

    sizes: tuple[int, ...]
    pairs: npt.NDArray[np.float32]
    precision: npt.NDArray[np.float32]
    triples: tuple[tuple[tuple[int, int, int], Floats, float], ...]
    singles: Floats
    singles_std: Floats
    counts: Floats


def split(tables: Sequence[Table], random: np.random.Generator) -> tuple[list[Table], list[Table]]:
    """Returns each table twice, with independent noise: for a trial fit, and to judge it by.

    With fresh z of the table's own noise, counts + z/2 and counts − 2z are independent, because the noise is Gaussian
    (Rasines and Young 2023; Leiner et al. 2023): a fit to the one is judged without bias by the other. The noise of the
    first grows by the factor √(5/4), that of the second by √5.
    """
    trial, judge = [], []
    for table in tables:
        fresh = random.normal(scale=table.noise_std, size=table.counts.shape)
        trial.append(replace(table, counts=table.counts + fresh / 2, noise_std=table.noise_std * math.sqrt(5 / 4)))
        judge.append(replace(table, counts=table.counts - 2 * fresh, noise_std=table.noise_std * math.sqrt(5)))
    return trial, judge


def class_tables(tables: Sequence[Table], sizes: Sequence[int], label: int | None) -> ClassTables:
    """Returns the tables arranged by class, those without the label left out; None makes one class of all records.

    `sizes` are the cells of each column.
    """
    others = [column for column in range(len(sizes)) if column != label]
    place = {column: at for at, column in enumerate(others)}
    offsets = np.cumsum([0, *(sizes[column] for column in others)])
    classes, width = 1 if label is None else sizes[label], int(offsets[-1])
    pairs = np.zeros((classes, width, width), dtype=np.float32)
    precision = np.zeros((width, width), dtype=np.float32)
    triples = []
    # Of single columns and of classes, every table that says something, weighted by inverse variance.
    singles, singles_weight = np.zeros((classes, width)), np.full(width, _TINY)
    totals, totals_weight = np.zeros(classes), _TINY
    for table in tables:
        if label is not None and label not in table.columns:
            continue
        columns = tuple(place[column] for column in table.columns if column != label)
        counts = table.counts[None] if label is None else np.moveaxis(table.counts, table.columns.index(label), 0)
        axes, variance = range(1, counts.ndim), counts[0].size * table.noise_std**2
        spans = [slice(offsets[column], offsets[column + 1]) for column in columns]
        for axis, span in zip(axes, spans, strict=True):
            weight = counts.shape[axis] / variance
            singles[:, span] += weight * counts.sum(axis=tuple(other for other in axes if other != axis))
            singles_weight[span] += weight
        totals += 1 / variance * counts.sum(axis=tuple(axes))
        totals_weight += 1 / variance
        if len(columns) == 2:
            pairs[:, spans[0], spans[1]] = counts
            precision[spans[0], spans[1]] = 1 / table.noise_std
        elif len(columns) == 3:
            triples.append(((columns[0], columns[1], columns[2]), counts, table.noise_std))
    return ClassTables(
        sizes=tuple(sizes[column] for column in others),
        pairs=pairs,
        precision=precision,
        triples=tuple(triples),
        singles=singles / singles_weight,
        singles_std=singles_weight**-0.5,
        counts=np.maximum(totals / totals_weight, totals_weight**-0.5),
    )


def likely_shares(tables: ClassTables) -> Floats:
    """Returns an estimate of each column's distribution in each class, positive, (classes, D).

    What a class says of its own is shrunk towards what all say together, by how far it stands out of its noise (James
    and Stein 1961), and brought back to the simplex.
    """
    shares = np.empty_like(tables.singles)
    for start, end in pairwise(np.cumsum([0, *tables.sizes]).tolist()):
        noisy, noise = tables.singles[:, start:end], float(tables.singles_std[start])
        together = _nonnegative(noisy.sum(axis=0)) + 1e-9
        together /= together.sum()
        for row, count in enumerate(tables.counts):
            apart = noisy[row] - count * together
            kept = max(0.0, 1 - (end - start) * noise**2 / max(float(apart @ apart), _TINY))
            mixed = _nonnegative(count * together + kept * apart)
            mixed = mixed / mixed.sum() if mixed.sum() > 0 else together
            # Nothing is ruled out: a tenth of the noise is left in every cell.
            mixed = np.maximum(mixed, min(0.1 * noise / count, 0.5 / (end - start)))
            shares[row, start:end] = mixed / mixed.sum()
    return shares


def _nonnegative(values: Floats) -> Floats:
    """Returns the nearest vector without negative entries that has the same sum, or zeros where that is negative."""
    total = float(values.sum())
    if total <= 0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[np.flatnonzero(falling > excess)[-1]], 0))


class _Goal:
    """Tables on the device, and the squared distance of a mixture to them in units of their noise."""

    def __init__(self, tables: ClassTables, device: torch.device) -> None:
        self._sizes, self.counts = tables.sizes, tables.counts.tolist()
        self._pairs = torch.from_numpy(tables.pairs).to(device)
        self._precision = torch.from_numpy(tables.precision).to(device)
        self._singles = torch.from_numpy(tables.singles).float().to(device)
        self._singles_precision = torch.from_numpy(1 / tables.singles_std).float().to(device)
        self._triples = [
            (columns, torch.from_numpy(counts).float().to(device), 1 / noise)
            for columns, counts, noise in tables.triples
        ]
        self.cells = int((tables.precision > 0).sum()) * len(self.counts)
        self.cells += sum(counts.size for _, counts, _ in tables.triples)

    def distances(
        self, logits: Float[Tensor, "classes K D"], weights: Float[Tensor, "classes K"], counts: Sequence[float]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Returns the squared distances to pairs and triples, and to single columns, summed over cells."""
        larger, singles = torch.zeros((), device=logits.device), torch.zeros((), device=logits.device)
        # One class at a time: the memory of one class's pairs is enough.
        for row, count in enumerate(counts):
            parts = [part.softmax(dim=1) for part in torch.split(logits[row], list(self._sizes), dim=1)]
            cells = torch.cat(parts, dim=1)
            weighted = cells * (weights[row].softmax(dim=0) * count)[:, None]
            residual = (weighted.T @ cells - self._pairs[row]) * self._precision
            larger = larger + residual.square().sum()
            for (first, second, third), table, precision in self._triples:
                start = sum(self._sizes[:first])
                left = weighted[:, start : start + self._sizes[first], None] * parts[second][:, None, :]
                joint = (left.flatten(1).T @ parts[third]).reshape(table.shape[1:])
                larger = larger + ((joint - table[row]) * precision).square().sum()
            apart = (weighted.sum(dim=0) - self._singles[row]) * self._singles_precision
            singles = singles + apart.square().sum()
        return larger, singles


class MixtureFit:
    """One fit; a `noisegate.training.checkpoint.Resumable`. For tables, sizes and label see `class_tables`."""

    def __init__(
        self,
        tables: Sequence[Table],
        sizes: Sequence[int],
        label: int | None,
        settings: MixtureSettings,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        self.settings, self.step, self.discrepancy = settings, 0, math.inf
        self._device = device
        trial, judge = (class_tables(half, sizes, label) for half in split(tables, np.random.default_rng(seed)))
        self._starts = [trial, class_tables(tables, sizes, label)]
        self._goals = [_Goal(one, device) for one in self._starts]
        self._judge = _Goal(judge, device)
        self._sizes, self._seed = trial.sizes, seed
        # Steps of the trial, the nearest that it came, and when; of the fit.
        self._tried, self._nearest, self._best, self._done = 0, math.inf, 0, 0
        self._begin(0)

    @property
    def steps(self) -> int:
        """Most steps that there will be, as far as is known."""
        if not self._goals[0].cells:
            return 0
        return self._tried + self._best if self._phase else 2 * self.settings.steps

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Estimated share of each class, (classes,)."""
        counts = np.asarray(self._goals[1].counts)
        return np.asarray(counts / counts.sum())

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps of the trial, and then of the fit."""
        with one_thread(self._device):
            while self._more():
                self._descend()
                self.step += 1
                if report:
                    report(FitState(step=self.step, steps=self.steps, discrepancy=self.discrepancy))

    def components(self) -> tuple[npt.NDArray[np.float32], list[npt.NDArray[np.float32]]]:
        """Returns the components' shares of their class, (classes, K), and each column's cells, (classes, K, cells)."""
        with torch.no_grad():
            parts = torch.split(self._logits, list(self._sizes), dim=2)
            return self._weights.softmax(dim=1).cpu().numpy(), [part.softmax(dim=2).cpu().numpy() for part in parts]

    def state_dict(self) -> dict[str, Tensor]:
        """Returns everything that `load_state_dict` needs to go on with the same bits, as named tensors."""
        tensors = {"logits": self._logits, "weights": self._weights, **self._adam.state_dict()}
        progress = [self._phase, self._tried, self._nearest, self._best, self._done, self.discrepancy]
        tensors["progress"] = torch.tensor(progress, dtype=torch.float64)
        return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the fit where `state_dict` was called."""
        phase, tried, self._nearest, best, done, self.discrepancy = tensors["progress"].tolist()
        self._begin(int(phase))
        self._tried, self._best, self._done = int(tried), int(best), int(done)
        self.step = self._tried + self._done
        with torch.no_grad():
            self._logits.copy_(tensors["logits"])
            self._weights.copy_(tensors["weights"])
        self._adam.load_state_dict(tensors)

    def _begin(self, phase: int) -> None:
        """Sets out anew: phase 0 is the trial, 1 the fit."""
        self._phase = phase
        start = torch.from_numpy(np.log(likely_shares(self._starts[phase]))).float()
        each = max(self.settings.components // len(start), 1)
        random = torch.Generator().manual_seed(self._seed)
        spread = self.settings.init_std * torch.randn(len(start), each, start.shape[1], generator=random)
        self._logits = (start[:, None] + spread).to(self._device).requires_grad_()
        self._weights = torch.zeros(len(start), each, device=self._device).requires_grad_()
        # By number, as checkpoints have them.
        parameters = {"0": self._logits, "1": self._weights}
        self._adam = Adam(parameters, learning_rate=1.0, beta2=0.99, fused=True)

    def _more(self) -> bool:
        """Whether there is another step; goes over from the trial to the fit."""
        if not self._goals[0].cells:
            # Single columns are matched by the start, as well as they are known.
            return False
        if self._phase == 0 and self._tried < min(self.settings.steps, self._best + _PATIENCE):
            return True
        if self._phase == 0:
            self._begin(1)
        return self._done < self._best

    def _descend(self) -> None:
        goal, step = self._goals[self._phase], self._done if self._phase else self._tried
        progress = step / self.settings.steps
        cosine = 0.5 * (1 + math.cos(math.pi * max(progress - 0.3, 0) / 0.7)) + 0.02
        larger, singles = goal.distances(self._logits, self._weights, goal.counts)
        rate = self.settings.learning_rate * min((step + 1) / _RISE, 1) * cosine
        self._adam.descend((larger + singles) / goal.cells, scale=rate)
        if self._phase:
            self._done += 1
            self.discrepancy = float(larger.detach()) / goal.cells
            return
        self._tried += 1
        with torch.no_grad():
            distance = float(self._judge.distances(self._logits, self._weights, goal.counts)[0])
        if distance < self._nearest:
            self._nearest, self._best = distance, self._tried


class PairwiseFit(MixtureFit):
    """The fit of a mixture to a release of a design: components of all classes side by side, values inside cells."""

    def __init__(
        self, design: Design, release: Release, settings: MixtureSettings, *, seed: int, device: torch.device
    ) -> None:
        self._design, self._release = design, release
        self._bins, tables = design.read(release)
        sizes = [*(bins.size for bins in self._bins), *(column.size for column in design.layout.coded)]
        super().__init__(tables, sizes, design.label, settings, seed=seed, device=device)

    def mixture(self) -> Mixture:
        """Returns the model that the fit has reached."""
        design = self._design
        shares, parts = self.components()
        classes, each = shares.shape
        weights = (self.shares[:, None] * shares).ravel()
        probabilities = [part.reshape(classes * each, -1) for part in parts]
        if design.label is not None:
            probabilities.insert(design.label, np.repeat(np.eye(classes, dtype=np.float32), each, axis=0))
        histograms = design.read_histograms(self._release.values, self._release.noise_std)
        columns = enumerate(zip(design.layout.numeric, design.fine, self._bins, strict=True))
        return Mixture(
            layout=design.layout,
            within=tuple(_within(*parts, histograms.get(place)) for place, parts in columns),
            weights=weights / weights.sum(),
            probabilities=tuple(probabilities),
        )


def _within(column: NumericColumn, fine: NumericBins, bins: NumericBins, histogram: Histogram | None) -> WithinCell:
    edges = np.asarray([0.0, *fine.cuts, 1.0])
    masses = np.ones(len(edges) - 1) if histogram is None else histogram.masses
    # The outermost fine cells of a continuous column are its two bounds.
    single = np.isin(np.arange(len(masses)), (0, len(masses) - 1)) & isinstance(column, Continuous)
    return WithinCell.from_edges(column, bins, edges=edges, masses=masses, spikes=single)
