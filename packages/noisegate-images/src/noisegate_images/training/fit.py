"""Settings of the fit of generators to a release, and the verdict on them. Nothing here can change the privacy."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import numpy as np

from noisegate.answers.verdict import KEPT, Source, Verdict, Word
from noisegate.methods.forecast import rounded_up
from noisegate.settings import (
    LearningRate,
    Settings,
    Steps,
    Unit,
    Whole,
    Within,
    settings,
)

PriorNetwork = Literal["convolutional", "dcgan"]
_AtLeastTwo = Annotated[int, Within(ge=2), "a whole number, 2 or more"]
_Power = Annotated[float, Within(ge=-4, le=4)]


@settings
class MomentSettings(Settings):
    """Settings of the fit of a generator to a release; see `noisegate_images.training.moment_matching`."""

    steps: Whole = 1500
    "Largest number of optimiser steps."
    batch: _AtLeastTwo = 256
    "Number of noise vectors in a step, for all classes together."
    learning_rate: LearningRate = 5e-3
    "Learning rate of Adam; with a schedule, its largest value."
    prior_rate: Unit = 0.1
    "Factor of the learning rate for weights that were pretrained on public images."
    ema_decay: Unit = 0.99
    "Decay of the moving average of the weights, which is the result; 0 uses the last weights."
    stop_at_noise: bool = True
    "Whether to stop when the distance is no larger than expected from the noise alone (discrepancy principle)."
    class_power: Annotated[
        _Power | None, "a number from -4 to 4; leave it out for equal weights"
    ] = None
    """Weights of the classes: None gives equal weights to all classes that exceed the noise; a number weights a class
    by its share to this power, in standard deviations of the noise. See
    `noisegate_images.training.target.class_weights`."""
    check_every: Steps = 200
    "Number of steps between two checks of the stopping rule."
    check_batches: _AtLeastTwo = 32
    "Number of new batches for each computation of the distance."


@settings
class FitSettings(MomentSettings):
    """Settings of the fit of the generators of DP-MERF, DP-HP and the joint embedding."""

    renamed = {"averaging": "ema_decay", "apart": "independent_halves"}  # noqa: RUF012

    check_batches: Annotated[int, Within(ge=3), "a whole number, 3 or more"] = 32
    total_variation: Unit = 0.0
    """For images: weight of the average difference of neighbouring pixels, added to the loss (largest value about 1).
    It is a multiple of the root of the loss that the noise alone causes, so that what is certain in a release is not
    smoothed."""
    independent_halves: bool = False
    "Whether the two halves of a batch are normalised separately, in parallel on two cores."


# Standard deviations of the noise on a class's mean; of how many others of a drawn set the nearest released mean is of
# their class (`benchmarks/images`). Real images lie anywhere between and beside: no word is better than "usable".
_NOISE = (0.0015, 0.003, 0.006, 0.0125, 0.025, 0.05, 0.1, 0.2)
_RIGHT = {
    "drawn digits": (0.895, 0.894, 0.892, 0.880, 0.838, 0.697, 0.409, 0.186),
    "shapes": (0.927, 0.927, 0.927, 0.921, 0.853, 0.700, 0.443, 0.189),
    "classes with six signs each": (
        0.719,
        0.715,
        0.699,
        0.646,
        0.516,
        0.310,
        0.175,
        0.119,
    ),
}
_WORDS: tuple[Word, ...] = ("usable", "rough")


def even_noise(stds: Iterable[float]) -> float:
    """Returns the noise that each block would have if shares were equal; precisions are in proportion to them."""
    return 1 / math.sqrt(statistics.fmean(1 / std**2 for std in stds))


def image_verdict(
    noise: float, classes: int, records: float | None, source: Source
) -> Verdict:
    """Returns the predicted verdict for a number of records; None states how many records each verdict needs."""
    # `noise` is its standard deviation on each coordinate of a class's sum; `source` says so.
    parts = np.negative([_part_kept(one) for one in _NOISE])
    hide = {
        word: math.exp(float(np.interp(-KEPT[word], parts, np.log(_NOISE))))
        for word in _WORDS
    }
    needed = {word: rounded_up(noise * classes / most) for word, most in hide.items()}
    figures = {"records_for": needed}
    takes = ", ".join(f"{word} from {least:,}" for word, least in needed.items())
    if records is None:
        reason = (
            f"the verdict depends on the number of images: {takes}; noise with fewer"
        )
        return Verdict(word=None, source=source, reasons=(reason,), figures=figures)
    on_mean = noise * classes / max(records, 1.0)
    word: Word = next(
        (word for word in _WORDS if _part_kept(on_mean) >= KEPT[word]), "noise"
    )
    right_shares = ", ".join(
        f"{100 * share:.0f} of 100 {what}" for what, share in _shares(on_mean)
    )
    reason = (
        f"with about {round(records / classes):,} images a class, the noisy class means "
        f"would classify correctly {right_shares}"
    )
    better = next(
        (one for one in _WORDS[: _WORDS.index(word) if word in _WORDS else 2]), None
    )
    cures = (
        ()
        if better is None
        else (
            f"{better} with {needed[better]:,} images or more, or with a larger epsilon",
        )
    )
    return Verdict(
        word=word,
        source=source,
        reasons=(reason,),
        cures=cures,
        figures={**figures, "noise": on_mean},
    )


def _shares(noise: float) -> Iterator[tuple[str, float]]:
    for what, shares in _RIGHT.items():
        yield what, float(np.interp(math.log(noise), np.log(_NOISE), shares))


def _part_kept(noise: float) -> float:
    """Returns which part is right of what would be without noise, on average over the sets."""
    return float(np.mean([share / max(_RIGHT[what]) for what, share in _shares(noise)]))
