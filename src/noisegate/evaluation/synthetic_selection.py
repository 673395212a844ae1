"""Networks trained on synthetic images, chosen by synthetic images, and tested once on real ones.

This is the "syn" protocol of DPImageBench (Gong et al., 2025): of the synthetic images a share is held out, and the
epoch is the one with the highest accuracy on that share. Choosing by accuracy on real images, as many papers did, reads
the real images once for each choice: the figure is too high, and what was chosen is not private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisegate.errors import DataError, OptionError
from noisegate.evaluation.class_scores import log_odds
from noisegate.evaluation.image_training import Training, device_name
from noisegate.evaluation.protocol import Progress
from noisegate.evaluation.scores import Scores, score
from noisegate.evaluation.selection_report import Choice, SelectionReport
from noisegate.evaluation.selection_training import (
    SELECTED_NETWORKS,
    EpochDone,
    SelectionRecipe,
    train_selected,
)
from noisegate.evaluation.training import LabelledRows, constant_scores
from noisegate.schema.pixels import ImageShape
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed

LEAST_IMAGES = 4


def synthetic_selection_scores(
    train: LabelledRows,
    test: LabelledRows,
    *,
    shape: ImageShape,
    classes: int,
    networks: Sequence[str] = ("cnn",),
    repeats: int = 1,
    recipe: SelectionRecipe | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> SelectionReport:
    """Train networks on some images, choose the epoch by others of the same source, and score on real ones.

    On a CPU each training runs on one thread, and the same seed gives the same scores.

    Args:
        train: the images to train on and to choose by, synthetic as a rule; features are float32 pixels in [0, 1] or
            uint8 pixels up to 255, row by row from the top left, with the channels of a pixel side by side.
        test: real images of at least two classes; read once for each network and start, after its choice.
        shape: of the images.
        classes: number of classes; with two, class 1 is the positive one.
        networks: some of "cnn", "resnet" and "wrn"; the last two want a GPU for tens of thousands of images.
        repeats: fresh starts of each network, with seeds from ``seed`` on; each holds out other images.
        recipe: settings; None for the ones that were settled on simulated digits.
        seed: of the first start; public.
        progress: told after each epoch and each training.

    Returns:
        Scores per network and start, and how each was chosen. A network that cannot be trained has the scores of a
        constant predictor, and a note.

    Raises:
        OptionError: an unknown network, ``classes`` below 2, ``repeats`` below 1, or no such device.
        DataError: rows that are no such images, or fewer than two classes among the test labels.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    settings = recipe or SelectionRecipe()
    _check(train, test, shape, classes, networks, repeats)
    device = device_name(Training(device=settings.device))
    seeds = tuple(range(seed, seed + repeats))
    tasks = [(name, start) for name in networks for start in seeds]
    done: dict[tuple[str, int], _Done] = {}
    for name, start in tasks:
        said = f"{name}, seed {start}"
        told = None if progress is None else _epochs(progress, said, len(done), len(tasks))
        done[name, start] = _one(name, train, test, shape, classes, settings, start, told)
        if progress is not None:
            progress(said, len(done), len(tasks))
    return SelectionReport(
        shape=shape,
        recipe=settings,
        device=device,
        seeds=seeds,
        runs={name: tuple(done[name, start].scores for start in seeds) for name in networks},
        choices={name: tuple(done[name, start].choice for start in seeds) for name in networks},
        notes=tuple(
            f"{name}, seed {start}: {done[name, start].note}" for name, start in tasks if done[name, start].note
        ),
        seconds={name: sum(done[name, start].seconds for start in seeds) for name in networks},
    )


@dataclass(frozen=True, kw_only=True)
class _Done:
    """What one fresh start came to; an empty note when nothing was unusual."""

    scores: Scores
    choice: Choice | None
    note: str
    seconds: float


def _one(
    name: str,
    train: LabelledRows,
    test: LabelledRows,
    shape: ImageShape,
    classes: int,
    recipe: SelectionRecipe,
    seed: int,
    progress: EpochDone | None,
) -> _Done:
    reason, seconds = _hopeless(train), 0.0
    if not reason:
        selected = train_selected(
            name, train, test, shape=shape, classes=classes, recipe=recipe, seed=seed, progress=progress
        )
        seconds = selected.seconds
        if np.isfinite(selected.logits).all():
            choice = Choice(held_out_accuracy=selected.held_out_accuracy, rate=selected.rate, epoch=selected.epoch)
            return _Done(scores=score(test.labels, log_odds(selected.logits)), choice=choice, note="", seconds=seconds)
        reason = "its scores are not finite"
    given = constant_scores(train.labels, len(test.labels), classes)
    note = f"could not be trained and is scored as a constant predictor ({reason})"
    return _Done(scores=score(test.labels, given), choice=None, note=note, seconds=seconds)


def _check(
    train: LabelledRows,
    test: LabelledRows,
    shape: ImageShape,
    classes: int,
    networks: Sequence[str],
    repeats: int,
) -> None:
    if not networks or (unknown := [name for name in networks if name not in SELECTED_NETWORKS]):
        named = repr(unknown[0]) if networks else "none"
        raise OptionError(f"networks has {named}; expected some of {', '.join(SELECTED_NETWORKS)}")
    if classes < 2:
        raise OptionError(f"classes is {classes}; expected at least 2")
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise OptionError(f"repeats is {repeats!r}; expected a whole number, at least 1")
    for what, rows in (("training", train), ("test", test)):
        rows.check(what, classes)
        if rows.features.shape[1] != shape.size:
            raise DataError(
                f"the {what} rows have {rows.features.shape[1]} features; expected {shape.size}, those of images of "
                f"{shape}"
            )
    if (found := len(np.unique(test.labels))) < 2:
        raise DataError(f"the test images have {found} class(es); scores need at least 2")


def _hopeless(train: LabelledRows) -> str:
    """Why nothing can be learnt from these images; empty where it can be tried."""
    if (found := len(np.unique(train.labels))) < 2:
        return f"the training images have {found} class(es)"
    if len(train.labels) < LEAST_IMAGES:
        return f"there are {len(train.labels)} training images, of which some must be held out"
    return ""


def _epochs(progress: Progress, said: str, done: int, tasks: int) -> EpochDone:
    return lambda epoch, all_of: progress(f"{said}, epoch {epoch} of {all_of}", done, tasks)
