"""Steps of DP-SGD: sums of clipped gradients over Poisson samples (G-19, G-21)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.execution import Representation, map_execution
from noisegate.gate.per_example.gradients import (
    FactoredLoss,
    RecordLoss,
    choose_execution,
    gradient_source,
)
from noisegate.gate.samples import PoissonSamples, StepTask
from noisegate.gate.transaction import Integers, Transaction
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Layout

if TYPE_CHECKING:
    from torch import Tensor


class GradientVectors:
    """Sums of the clipped gradients in a Poisson sample; see `StepVectors`.

    Args:
        query: The steps, as they were asked for.
        loss: The loss of one record; a `FactoredLoss` if the plan is factored.
        device: Device on which torch computes gradients.
        microbatch: Number of records whose gradients are computed at once; None for
            what fits into memory.
        represent: A public feature map whose vector replaces the numeric columns of a
            record; None to leave records as they are.

    Raises:
        OptionError: if the loss does not fit the plan.
    """

    def __init__(
        self,
        query: GradientQuery,
        loss: RecordLoss | FactoredLoss,
        *,
        device: str = "cpu",
        microbatch: int | None = None,
        represent: FeatureMap | None = None,
    ) -> None:
        self.query = query
        self.loss = loss
        self.represent = represent
        self._gradients = gradient_source(loss, query, microbatch)
        self._device = device
        # The map `represent` with how it is computed, after the probe; None without
        # one.
        self._representation: Representation | None = None

    @property
    def public_settings(self) -> dict[str, Any]:
        """Norm, form and representation of the gradients, for the certificate."""
        settings: dict[str, Any] = {
            "norm": self.query.clip_norm,
            "factored": self.query.factored,
        }
        if self.represent is not None:
            settings["represented"] = {
                "by": type(self.represent).__name__,
                "dim": self.represent.dim,
            }
        return settings

    def checked(self, parameters: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Checks the shapes of parameters, and converts them to float32 on the device.

        Args:
            parameters: Parameters, by name.

        Returns:
            The parameters, detached from any graph, on the device of the session.

        Raises:
            OptionError: if they have other shapes than planned.
        """
        import torch

        used_parameters = {
            name: value.detach().to(self._device, torch.float32)
            for name, value in parameters.items()
        }
        shapes = {name: tuple(value.shape) for name, value in used_parameters.items()}
        planned_shapes = self.query.parameters
        if shapes != planned_shapes:
            raise OptionError(
                f"parameters of shapes {shapes}, the plan has {dict(planned_shapes)}."
            )
        return used_parameters

    def probe(
        self, parameters: Mapping[str, Tensor], layout: Layout, threads: int
    ) -> None:
        """Tries map and loss on simulated records, and chooses how they are computed.

        Args:
            parameters: Parameters of the first step.
            layout: Columns of the records.
            threads: Threads that torch uses here and in all steps.

        Raises:
            OptionError: if the vector or the gradient of a record depends on other
                records.
        """
        if self.represent is not None:
            execution = map_execution(
                type(self.represent).__name__, self.represent, layout, threads=threads
            )
            self._representation = Representation(self.represent, execution)
        choose_execution(
            self._gradients,
            parameters,
            layout,
            self._device,
            self.query.name,
            self._representation,
            threads=threads,
        )

    def read(
        self,
        transaction: Transaction,
        samples: PoissonSamples,
        parameters: Mapping[str, Tensor],
    ) -> Any:
        """Makes the engine read all records into memory, here or in its workers.

        Args:
            transaction: Has the records, and the engine.
            samples: Draws the sample of each step.
            parameters: Parameters of the first step.

        Returns:
            The records, whose `total(step, parameters)` sums over a step's sample.
        """
        task = StepTask(
            gradients=self._gradients,
            samples=samples,
            initial_parameters=parameters,
            count=self.query.count,
            device=self._device,
            representation=self._representation,
        )
        access = transaction.access
        engine = transaction.started_engine()
        return engine.hold(access.source, task, access.progress)

    def total(
        self,
        held_records: Any,
        samples: PoissonSamples,
        number: int,
        parameters: Mapping[str, Tensor],
    ) -> Integers:
        """Computes the exact sum of the clipped gradients in a step's sample.

        Args:
            held_records: What `read` returned; private. It draws the sample.
            samples: Not used.
            number: Number of the step, from 0.
            parameters: Its parameters.

        Returns:
            The sum, (count,), in grid units; private.
        """
        return np.asarray(held_records.total(number, parameters))

    def unpacked(self, noisy: Integers) -> dict[str, Tensor]:
        """Splits the noisy sum of a step into tensors, in the units of the gradients.

        Args:
            noisy: The sum in grid units, (count,).

        Returns:
            Tensors of the planned shapes on the device of the session, by name.
        """
        import torch

        arrays = self.query.unpack(noisy)
        return {
            name: torch.from_numpy(array).to(self._device)
            for name, array in arrays.items()
        }
