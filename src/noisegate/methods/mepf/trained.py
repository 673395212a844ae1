"""DP-MEPF without public images: the encoder is trained on the private ones, by DP-SGD, at the same gate.

Appendix F of the dissertation (and of Harder et al., TMLR 2023): part of the budget trains a classifier, the rest asks
for the mean embedding of its activations. Here both are one plan: noisy gradients first, then the questions, whose
maps hold what was trained. Those maps depend on earlier answers alone, and their vectors have norm 1 whatever the
weights are, so nothing but the events of the plan is paid for.

The classifier is the ConvNet of `networks.convnet`, whose features are the activations after each ReLU. It is released
with the embedding, which only it can read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.errors import ModelError, OptionError, SchemaError
from noisegate.methods.generator_choice import read_shape
from noisegate.methods.kept_training import KeptTraining, Training, check_finite
from noisegate.methods.mepf.method import DPMEPF
from noisegate.methods.trained import Trained
from noisegate.privacy.gradient_plan import CalibratedGradientPlan, GradientPlan, unpacked
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from torch import Tensor, nn

    from noisegate.fitting.moments import MomentFitting
    from noisegate.gate.gate import Gate
    from noisegate.gate.losses import RecordLoss
    from noisegate.networks.named import FrozenNetwork

ENCODER = "encoder"
"""The event of the training, and what is released of it."""

_OWN = "trained"
_MEAN, _STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
_POSITIVE = ("encoder_norm", "encoder_learning_rate", "encoder_share")


@dataclass(frozen=True, kw_only=True)
class DPMEPFTrained(DPMEPF, Trained):
    """Settings of DP-MEPF with an encoder of its own; none of them depends on private data.

    Beside those of `DPMEPF`, whose `network`, `weights` and `sha256` are not to be given:

    Attributes:
        encoder_width: Channels of each block of the encoder.
        encoder_depth: Its blocks.
        encoder_steps: How many noisy gradients it is trained with.
        encoder_rate: Chance of each record to be in the sample of a step.
        encoder_norm: L2 norm that the gradient of each record is clipped to.
        encoder_learning_rate: Of Adam.
        encoder_share: Budget share of the training, beside those of the questions.
    """

    network: str = _OWN
    encoder_width: int = 32
    encoder_depth: int = 3
    encoder_steps: int = 300
    encoder_rate: float = 0.02
    encoder_norm: float = 1.0
    encoder_learning_rate: float = 2e-3
    encoder_share: float = 1.0

    name: str = field(default="dp-mepf-trained", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network != _OWN or self.weights is not None or self.sha256 is not None:
            raise OptionError(f"{self.name} trains its network itself; leave out network, weights and sha256.")
        for option in ("encoder_width", "encoder_depth", "encoder_steps"):
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{option}={value!r} must be a positive whole number.")
        for option in (*_POSITIVE, "encoder_rate"):
            value, most = getattr(self, option), 1 if option == "encoder_rate" else 1000
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
                raise OptionError(f"{option}={value!r} must be a number above 0, at most {most}.")

    def plan(self, schema: Schema, budget: Budget) -> CalibratedGradientPlan:  # type: ignore[override]
        """Returns the calibrated plan: steps and questions, and with what noise. Reads no data.

        Raises:
            SchemaError: if the images have no label to be told apart by.
        """
        module = self._fresh(schema)
        shapes = {name: tuple(value.shape) for name, value in module.named_parameters()}
        plan = GradientPlan(
            name=ENCODER,
            steps=self.encoder_steps,
            rate=self.encoder_rate,
            norm=self.encoder_norm,
            parameters=shapes,
            questions=self._with(module).questions(schema, budget),
            share=self.encoder_share,
        )
        return plan.calibrate(budget)

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one image: the cross-entropy of its label."""
        from noisegate.gate.losses import module_loss

        shape, label = read_shape(self.image), schema.layout.label
        assert label is not None

        def criterion(run: Callable[[Tensor], Tensor], numeric: Tensor, codes: Tensor) -> Tensor:
            import torch

            image = numeric.reshape(1, shape.height, shape.width, shape.channels).permute(0, 3, 1, 2)
            scores = run((image.expand(-1, 3, -1, -1) - _MEAN[0]) / _STD[0])[0]
            wanted = torch.arange(len(scores), device=scores.device) == codes[label]
            return torch.logsumexp(scores, dim=0) - torch.where(wanted, scores, 0.0).sum()

        return module_loss(self._fresh(schema), criterion)

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> Training:
        """Returns Adam on the encoder's weights; see `Trained`."""
        from noisegate.methods.descent import Descent

        start = dict(self._fresh(schema).named_parameters())
        return Descent(start, learning_rate=self.encoder_learning_rate, batch=batch, device=device)

    def ask(
        self,
        gate: Gate,
        *,
        report: Callable[[int], None] | None = None,
        device: str = "cpu",
        folder: Path | None = None,
        physical_batch: int | None = None,
    ) -> Release:
        """Returns the release: the encoder, and the embedding of the same records by it; see `Trained.ask`.

        A run cannot be taken up again, as the answers to the questions are kept in memory: `folder` is not used.
        """
        self.check_gate(gate)
        assert gate.records is not None
        plan = self.plan(gate.schema, gate.budget)
        training = self.training(gate.schema, plan, plan.plan.rate * gate.records, device)
        session = gate.gradients(
            plan,
            self.loss(gate.schema),
            method=self.name,
            public={"settings": self.to_json()},
            device=device,
            physical_batch=physical_batch,
        )
        with session, KeptTraining(None, training):
            while session.steps_left:
                noisy, done = session.step(training.parameters()), plan.plan.steps - session.steps_left
                training.step(noisy)
                check_finite(training.parameters(), done)
                if report is not None:
                    report(done)
            module = self._fresh(gate.schema)
            module.load_state_dict({name: value.cpu() for name, value in training.result().items()})
            session.ask(self._with(module).asked(gate.schema, gate.budget))
            return session.release(training.result())

    def fitting(self, release: Release, *, device: str = "auto") -> MomentFitting:
        """Returns the fit of a release, with the encoder that is in it."""
        module = self._fresh(release.schema)
        shapes = {name: tuple(value.shape) for name, value in module.named_parameters()}
        values = release.values.get(ENCODER)
        if values is None or values.size != sum(value.numel() for value in module.parameters()):
            raise ModelError("the release has no encoder of this size: it was made by another method or settings.")
        module.load_state_dict(_tensors(unpacked(values, shapes)))
        return super(DPMEPFTrained, self._with(module)).fitting(release, device=device)

    def _fresh(self, schema: Schema) -> nn.Module:
        """Returns the encoder with its weights at the start."""
        from noisegate.networks.convnet import build_convnet

        label = schema.layout.label
        if label is None:
            raise SchemaError(f"{self.name} trains its encoder to tell labels apart; name a label, or take dp-mepf.")
        shape = read_shape(self.image)
        colour = ImageShape(height=shape.height, width=shape.width, channels=3)
        classes = schema.layout.coded[label].size
        return build_convnet(colour, classes, width=self.encoder_width, depth=self.encoder_depth, seed=self.seed)

    def _with(self, module: nn.Module) -> DPMEPFTrained:
        """Returns the same method with an encoder."""
        from torch.nn import ReLU

        from noisegate.networks.named import FrozenNetwork

        names = tuple(name for name, part in module.named_modules() if isinstance(part, ReLU))
        network = FrozenNetwork(
            module=module.requires_grad_(False).eval(),
            layers=names,
            nonnegative=frozenset(names),
            mean=_MEAN,
            std=_STD,
            sha256="",
        )
        result = copy.copy(self)
        object.__setattr__(result, "_encoder", network)
        return result

    def _network(self) -> FrozenNetwork:
        network: FrozenNetwork | None = getattr(self, "_encoder", None)
        if network is None:
            raise ModelError(f"the feature maps of {self.name} are known once its encoder is trained.")
        return network

    def check_fit(self, device: str) -> None:
        """Finds what would stop the fit, before any budget is spent; see `DPMEPF`."""
        from noisegate.fitting.device import choose_device

        choose_device(device)
        self.fit_settings()


def _tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    import torch

    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
