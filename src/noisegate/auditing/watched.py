"""A gate whose questions are watched: beside each answer, what the records that an auditor knows add to the exact sum.

The answers themselves are taken from what leaves the gate. What is written down about single records is computed apart
from the gate where a gradient is concerned (by torch, clipped in float64), and by the gate's own sums else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt

from noisegate.features.binning import NumericBins
from noisegate.gate.execution import embedded_records
from noisegate.gate.gate import Gate
from noisegate.gate.per_example.losses import FactoredLoss, RecordLoss
from noisegate.gate.queries.gradients import GradientSession
from noisegate.gate.sums import Batch, LocalEngine, Progress, SumTask, Totals, sum_records
from noisegate.privacy.gradient_plan import CalibratedGradientPlan
from noisegate.privacy.marginal_plan import MarginalPlan, marginal_columns
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable

if TYPE_CHECKING:
    from torch import Tensor

Vector = npt.NDArray[np.float64]
Step = Callable[[CalibratedGradientPlan, Vector, Vector], None]
"""Called with the plan, what a step handed out and the gradients of single records, (records, numbers), both over the
standard deviation of the noise."""


@dataclass
class Watch:
    """What an auditor writes down; also the engine of its gate.

    Attributes:
        parts: Sets of records whose exact sums are wanted, of each question.
        singles: Records whose gradients are wanted, at each step.
        on_step: What is done with each step of a gradient run.
        sums: For each question, the exact sum of each part in the units of its release, (parts, dim, columns).
    """

    parts: Sequence[EncodedTable]
    singles: EncodedTable
    on_step: Step
    sums: dict[str, Vector] = field(default_factory=dict)

    def sum(
        self, batches: Sequence[Batch], tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:  # as `gate.engines.engine.Engine` has it
        """Returns the exact totals over all records in `batches`."""
        found = [sum_records(part, tasks) for part in self.parts]
        for name, task in tasks.items():
            self.sums[name] = np.stack([task.grid.restore(one.sums[name]).T for one in found])
        return LocalEngine(threads=1).sum(batches, tasks, progress)


class WatchedGate(Gate):
    """A gate whose questions are watched; see `Gate` for the options."""

    def __init__(self, data: Any, *, watch: Watch, **options: Any) -> None:
        super().__init__(data, engine=cast("Any", watch), **options)
        self._watch = watch

    def gradients(self, plan: CalibratedGradientPlan, loss: RecordLoss | FactoredLoss, **options: Any) -> Any:
        """Returns a session of gradients whose steps are watched."""
        records = self._watch.singles
        if options.get("represent") is not None:
            records = embedded_records(records, options["represent"])
        session = super().gradients(plan, loss, **options)
        return _WatchedSteps(session, plan, SingleGradients(loss, plan, records), self._watch)

    def marginals(self, plan: MarginalPlan, bins: Sequence[NumericBins], **options: Any) -> Release:
        """Returns noisy marginals, and writes down the exact ones of the tables that were chosen."""
        release = super().marginals(plan, bins, **options)
        codes = [
            np.stack([*(one.codes(part.numeric[:, j]) for j, one in enumerate(bins)), *part.codes.T])
            for part in self._watch.parts
        ]
        for name in release.values:
            columns = list(marginal_columns(name))
            sizes = [plan.sizes[column] for column in columns]
            tables = [
                np.histogramdd(found[columns].T, bins=[np.arange(size + 1) for size in sizes])[0] for found in codes
            ]
            self._watch.sums[name] = np.stack([table.reshape(-1, 1) for table in tables])
        return release


class SingleGradients:
    """Gradients of a loss at a few records, each by itself, clipped in float64."""

    def __init__(self, loss: RecordLoss | FactoredLoss, plan: CalibratedGradientPlan, records: EncodedTable) -> None:
        self._loss, self._plan, self._records = loss, plan, records

    def __call__(self, parameters: Mapping[str, Tensor]) -> Vector:
        """Returns the gradients, (records, numbers), over the standard deviation of the noise."""
        found = np.stack([self._one(parameters, row) for row in range(len(self._records))])
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        norm = self._plan.plan.clip_norm
        clipped: Vector = found * np.minimum(1.0, norm / np.maximum(lengths, 1e-300)) / self._plan.noise_std_natural
        return clipped

    def _one(self, parameters: Mapping[str, Tensor], row: int) -> Vector:
        import torch

        numeric = torch.tensor(self._records.numeric[row], dtype=torch.float32)
        codes = torch.tensor(self._records.codes[row], dtype=torch.int64)
        own = {name: value.detach().cpu().clone().requires_grad_() for name, value in parameters.items()}
        if isinstance(self._loss, FactoredLoss):
            (weight,) = own.values()
            outputs = (weight @ self._loss.inputs(numeric, codes)[..., None])[..., 0]
            loss = self._loss.loss(outputs, numeric, codes)
        else:
            loss = self._loss(own, numeric, codes)
        slopes = torch.autograd.grad(loss, list(own.values()), allow_unused=True)
        pairs = zip(slopes, own.values(), strict=True)
        flat = [(torch.zeros_like(value) if slope is None else slope).reshape(-1) for slope, value in pairs]
        return torch.cat(flat).detach().numpy().astype(np.float64)


class _WatchedSteps:
    """A session of gradients that tells each step's answer; everything else is the session's."""

    def __init__(
        self, session: GradientSession, plan: CalibratedGradientPlan, single: SingleGradients, watch: Watch
    ) -> None:
        self._session, self._plan, self._single, self._watch = session, plan, single, watch

    def step(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        found = self._single(parameters)
        noisy = self._session.step(parameters)
        flat = np.concatenate([noisy[name].cpu().numpy().reshape(-1) for name in self._plan.plan.parameters])
        self._watch.on_step(self._plan, flat.astype(np.float64) / self._plan.noise_std_natural, found)
        return noisy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def __enter__(self) -> Self:
        self._session.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, trace)
