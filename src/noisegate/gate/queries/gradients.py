"""Gradients: noisy sums of clipped per-example gradients over Poisson samples, step after step.

The parameters of a step may depend on everything that was handed out before; rate, clipping norm and noise may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.per_example.gradient_probe import choose_execution, represent_execution
from noisegate.gate.per_example.gradients import block_gradients, gradient_source
from noisegate.gate.per_example.losses import FactoredLoss, RecordLoss
from noisegate.gate.per_example.poisson import poisson_sample
from noisegate.gate.queries.steps import Records, StepSession, as_floats
from noisegate.gate.session import Access, Integers
from noisegate.privacy.step_plan import StepPlan

if TYPE_CHECKING:
    from torch import Tensor


class GradientSession(StepSession):
    """The steps of one plan of gradients, to be had from `Gate.gradients`.

    Args:
        access: What the gate grants.
        loss: The loss of one record.
        journal: File that counts steps across interruptions, or None.
        device: Where gradients are computed.
        physical_batch: Records whose gradients are computed at once, at most; None for what fits.
        represent: Map whose vector takes the place of a record's numeric columns, once, on reading; None for none.
    """

    def __init__(
        self,
        access: Access,
        loss: RecordLoss | FactoredLoss,
        *,
        journal: Path | None = None,
        device: str = "cpu",
        physical_batch: int | None = None,
        represent: FeatureMap | None = None,
    ) -> None:
        plan = access.plan.plan
        self._gradients = gradient_source(loss, plan, physical_batch)
        self._device, self._probed = device, False
        self._parameters: dict[str, Tensor] = {}
        settings: dict[str, Any] = {"norm": plan.norm, "factored": plan.factored}
        if represent is not None:
            settings["represented"] = {"by": type(represent).__name__, "dim": represent.dim}
        public = plan_settings(access.public, plan, settings)
        super().__init__(replace(access, public=public), journal=journal, represent=represent)

    def step(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the noisy sum of clipped gradients over a fresh Poisson sample, in the units of the gradients.

        Args:
            parameters: The parameters to differentiate at, of the planned shapes. They are public.

        Raises:
            OptionError: if no step is left, or parameters or loss do not fit (nothing is read or used up then).
            DataError: if the data does not fit the schema.
            BudgetRefusedError: if the ledger refuses.
        """
        import torch

        plan = self.plan.plan
        with self._lock:
            self._check_steps()
            self._parameters = {
                name: value.detach().to(self._device, torch.float32) for name, value in parameters.items()
            }
            shapes = {name: tuple(value.shape) for name, value in self._parameters.items()}
            if shapes != plan.parameters:
                raise OptionError(f"parameters of shapes {shapes}, the plan has {dict(plan.parameters)}.")
            if not self._probed:
                self._probe(plan.name)
            found: dict[str, Tensor] = self._step()
            return found

    def _unpacked(self, noisy: Integers) -> dict[str, Tensor]:
        import torch

        arrays = super()._unpacked(noisy)
        return {name: torch.from_numpy(array).to(self._device) for name, array in arrays.items()}

    def _probe(self, name: str) -> None:
        layout = self._access.source.schema.layout
        if self._represent is not None:
            self._represented = self._represent, represent_execution(self._represent, layout)
        choose_execution(self._gradients, self._parameters, layout, self._device, name, self._represented)
        self._probed = True

    def _sample(self, records: int, number: int) -> npt.NDArray[np.intp]:
        return poisson_sample(records, self.plan.plan.rate)

    def _exact(self, records: Records, sample: npt.NDArray[np.intp]) -> Integers:
        numeric, codes = records
        rows = self._gradients.execution.rows
        sums = np.zeros(self.plan.plan.count, dtype=np.int64)
        for start in range(0, len(sample), rows):
            block = sample[start : start + rows]
            # Always of one shape: kernels may round differently for another (DESIGN 1.5).
            padded = block[np.minimum(np.arange(rows), len(block) - 1)]
            seen = as_floats(numeric[padded]), codes[padded]
            vectors = block_gradients(self._gradients, self._parameters, *seen, self._device)
            self._gradients.add(sums, tuple(part[: len(block)] for part in vectors))
        return sums


def plan_settings(public: Mapping[str, Any], plan: StepPlan, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is public of a run in steps, with the settings and shapes of its plan, for the certificate."""
    told: dict[str, Any] = {**settings, "parameters": {name: list(shape) for name, shape in plan.parameters.items()}}
    if plan.trained is not None:
        told["trained"] = {name: list(shape) for name, shape in plan.trained.items()}
    return {**public, "gradients": {plan.name: told}}
