"""What an evaluation with networks chosen by synthetic images reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field

from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.scores import Scores
from noisegate.evaluation.selection_training import SelectionRecipe
from noisegate.schema.pixels import ImageShape

SELECTION_VERSION = "2026.1"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How one network was chosen, before the real test images were read.

    Attributes:
        held_out_accuracy: on the held-out images of the training source after each epoch, per learning rate.
        rate: the learning rate that was chosen.
        epoch: the epoch that was chosen, from 1.
    """

    held_out_accuracy: tuple[tuple[float, ...], ...]
    rate: float
    epoch: int

    def to_json(self) -> dict[str, object]:
        """The choice as JSON values."""
        return {
            "held_out_accuracy": [list(run) for run in self.held_out_accuracy],
            "learning_rate": self.rate,
            "epoch": self.epoch,
        }


@dataclass(frozen=True, kw_only=True)
class SelectionReport:
    """Scores on real images of networks that were trained and chosen on other images.

    Attributes:
        shape: of the images.
        recipe: settings of training and choice.
        device: where it ran.
        seeds: of the fresh starts.
        runs: per network, the scores of each fresh start, in the order of the seeds.
        choices: per network and start, what the choice was made by; None where nothing could be trained.
        notes: what was unusual, in words, each starting with the name of the network.
        seconds: wall-clock time of all starts per network; no part of equality.
    """

    shape: ImageShape
    recipe: SelectionRecipe
    device: str
    seeds: tuple[int, ...]
    runs: Mapping[str, tuple[Scores, ...]]
    choices: Mapping[str, tuple[Choice | None, ...]]
    notes: tuple[str, ...]
    seconds: Mapping[str, float] = field(compare=False)

    @property
    def models(self) -> Mapping[str, Scores]:
        """Per network, the mean over the fresh starts."""
        return {name: Scores.mean(runs) for name, runs in self.runs.items()}

    @property
    def spread(self) -> Mapping[str, Scores]:
        """Per network, the standard deviation over the fresh starts; empty for one start."""
        return {name: Scores.deviation(runs) for name, runs in self.runs.items() if len(runs) > 1}

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with every setting and the sentence about the guarantee."""
        spread = self.spread
        return {
            "caveat": CAVEAT,
            "protocol": {
                "name": "chosen by synthetic images",
                "version": SELECTION_VERSION,
                "image": list(astuple(self.shape)),
                "recipe": self.recipe.to_json(),
                "device": self.device,
                "seeds": list(self.seeds),
            },
            "models": {
                name: {
                    "mean": scores.to_json(),
                    "standard_deviation": spread[name].to_json() if name in spread else None,
                    "runs": [run.to_json() for run in self.runs[name]],
                    "choices": [one.to_json() if one else None for one in self.choices[name]],
                }
                for name, scores in self.models.items()
            },
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }
