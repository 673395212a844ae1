"""Fits a mixture of product distributions to released contingency tables, and stops before it fits their noise.

Each class has components of its own. The expected counts of a class's pairs are one matrix product: with P the cells'
probabilities of every component, (K, D), and w the components' expected numbers of records, they are Pᵀ diag(w) P.

How long to fit is found by a trial on noisier tables, judged by tables with independent noise (`tables.split`): the
step at which the trial came nearest to what it could not see is the number of steps of the fit itself.

Related: RAP (Aydore et al. 2021), RAP++ (Vietri et al. 2022) and GEM (Liu, Vietri and Wu 2021) fit relaxed tables and
generators to noisy queries by gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisegate.devices import one_thread
from noisegate.training.adam import Adam
from noisegate.training.fit import FitState, MixtureSettings
from noisegate.training.tables import ClassTables, Table, class_tables, likely_shares, split

# The first steps bring the learning rate up.
_RISE = 10
# The trial ends when this many steps in a row have brought it no nearer.
_PATIENCE = 25


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

    def distances(self, logits: Tensor, weights: Tensor, counts: Sequence[float]) -> tuple[Tensor, Tensor]:
        """Returns the squared distances to pairs and triples, and to single columns, summed over cells.

        Args:
            logits: Of the cells, (classes, K, D).
            weights: Logits of the components' shares, (classes, K).
            counts: Records of each class.
        """
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
    """One fit. It may be stopped between steps, saved (`state_dict`), and taken up again (`load_state_dict`).

    Args:
        tables: Released tables.
        sizes: Cells of each column.
        label: The label's column; None makes one class of all records.
        settings: How.
        seed: Of the public randomness.
        device: Where to compute.
    """

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
            columns = [
                part.softmax(dim=2).cpu().numpy() for part in torch.split(self._logits, list(self._sizes), dim=2)
            ]
            return self._weights.softmax(dim=1).cpu().numpy(), columns

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
