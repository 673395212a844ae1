"""What an evaluation by networks is told and what it reports, over several fresh starts of each network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field

from noisegate.errors import OptionError
from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.image_training import Training
from noisegate.evaluation.scores import Scores
from noisegate.schema.pixels import ImageShape

REPEATS = 3
"""Fresh starts of each network in the paper."""


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """What may be chosen about an evaluation by networks.

    Attributes:
        image: shape of the images; None to take it from the names of the columns.
        repeats: fresh starts of each network, with consecutive seeds.
        training: how each is trained.

    Raises:
        OptionError: ``repeats`` is below 1.
    """

    image: ImageShape | None = None
    repeats: int = REPEATS
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if isinstance(self.repeats, bool) or not isinstance(self.repeats, int) or self.repeats < 1:
            raise OptionError(f"repeats is {self.repeats!r}; expected a whole number, at least 1")


@dataclass(frozen=True, kw_only=True)
class NetworkList:
    """Which networks were trained on what, and how.

    Attributes:
        version: of the list and of the training.
        names: in the order of the paper.
        shape: of the images.
        training: its settings.
        device: where it ran.
        seeds: of the fresh starts.
    """

    version: str
    names: tuple[str, ...]
    shape: ImageShape
    training: Training
    device: str
    seeds: tuple[int, ...]

    def to_json(self) -> dict[str, object]:
        """The list as JSON values, with every setting of the training."""
        return {
            "list": "networks",
            "version": self.version,
            "networks": list(self.names),
            "image": list(astuple(self.shape)),
            "training": self.training.to_json(),
            "device": self.device,
            "seeds": list(self.seeds),
        }


@dataclass(frozen=True, kw_only=True)
class NetworksReport:
    """Scores on real images of networks trained on other images.

    Attributes:
        protocol: the networks and their training.
        runs: per network, the scores of each fresh start, in the order of the seeds.
        notes: what was unusual, in words, each starting with the name of the network.
        seconds: wall-clock time of all starts per network; no part of equality.
    """

    protocol: NetworkList
    runs: Mapping[str, tuple[Scores, ...]]
    notes: tuple[str, ...]
    seconds: Mapping[str, float] = field(compare=False)

    @property
    def models(self) -> Mapping[str, Scores]:
        """Per network, the mean over the fresh starts: the figure that the paper prints."""
        return {name: Scores.mean(runs) for name, runs in self.runs.items()}

    @property
    def spread(self) -> Mapping[str, Scores]:
        """Per network, the standard deviation over the fresh starts; empty for one start."""
        return {name: Scores.deviation(runs) for name, runs in self.runs.items() if len(runs) > 1}

    @property
    def mean(self) -> Scores:
        """The mean over the networks of their means."""
        return Scores.mean(list(self.models.values()))

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the settings and the sentence about the guarantee."""
        spread = self.spread
        models = {
            name: {
                "mean": scores.to_json(),
                "standard_deviation": spread[name].to_json() if name in spread else None,
                "runs": [run.to_json() for run in self.runs[name]],
            }
            for name, scores in self.models.items()
        }
        return {
            "caveat": CAVEAT,
            "classifiers": self.protocol.to_json(),
            "mean": self.mean.to_json(),
            "models": models,
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }
