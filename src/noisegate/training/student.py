"""A generator trained against a student discriminator, which learns from noisy votes on generated records alone.

Jordon, Yoon and van der Schaar (ICLR 2019), https://openreview.net/forum?id=S1zk9iRqF7, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot, softplus

from noisegate.networks.discriminator import Discriminator
from noisegate.training.adam import Adam
from noisegate.training.checkpoint import joined, under
from noisegate.training.transport import TransportTraining

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped


class StudentTraining(TransportTraining):
    """Generator and student on their way; `given` is what the training of a generator is given."""

    def __init__(self, student: Discriminator, *, student_learning_rate: float, **given: Any) -> None:
        super().__init__(**given)
        self._student = student
        self._student_adam = Adam(dict(student.named_parameters()), learning_rate=student_learning_rate)

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the student by noisy votes on this step's records, and then the generator by the student."""
        records, labels = self._latest()
        # Votes are a half for or against: of the sum, the sign is what the majority says.
        truth = (torch.as_tensor(noisy["votes"]).to(records) > 0).to(records.dtype)
        self._student_adam.descend(
            binary_cross_entropy_with_logits(self._student(self._rows(records.detach(), labels)), truth)
        )
        self._adam.descend(softplus(-self._student(self._rows(records, labels))).mean())
        self.steps, self._generated = self.steps + 1, None

    def state_dict(self) -> dict[str, Tensor]:
        """Returns both networks, both optimisers and the number of steps."""
        student = joined(student=dict(self._student.state_dict()), student_adam=self._student_adam.state_dict())
        return {**super().state_dict(), **student}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        super().load_state_dict(tensors)
        self._student.load_state_dict(under(tensors, "student/"))
        self._student_adam.load_state_dict(under(tensors, "student_adam/"))

    def _rows(self, records: Float[Tensor, "rows inputs"], labels: Shaped[Tensor, " rows"]) -> Float[Tensor, "rows _"]:
        classes = self._student.classes
        if not classes:
            return records
        return torch.cat([records, one_hot(labels.to(records.device), classes).to(records.dtype)], dim=1)
