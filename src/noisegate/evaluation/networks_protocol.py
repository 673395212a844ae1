"""The evaluation of PSG: networks trained on synthetic images and tested on real ones, each several times.

Each network is trained from several fresh starts, and what is scored is the network after the last epoch: no epoch, no
start and no setting is chosen by its score on the real test images.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from typing import cast

import numpy as np

from noisegate.errors import DataError, OptionError
from noisegate.evaluation.image_training import EpochDone, Training, device_name, train_and_score_network
from noisegate.evaluation.networks import NETWORKS, NETWORKS_VERSION, SLOW, read_networks
from noisegate.evaluation.networks_report import REPEATS, NetworkList, NetworkOptions, NetworksReport
from noisegate.evaluation.protocol import Progress, usable_cores
from noisegate.evaluation.training import LabelledRows, Outcome
from noisegate.schema.pixels import ImageShape
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed


def network_scores(
    train: LabelledRows,
    test: LabelledRows,
    *,
    shape: ImageShape,
    classes: int,
    networks: Sequence[str] = NETWORKS,
    repeats: int = REPEATS,
    training: Training | None = None,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> NetworksReport:
    """Train networks on some images and score them on others.

    On a CPU each training runs on one thread, and several run side by side in processes of their own; the scores do not
    depend on ``jobs``. On a GPU they run one after the other.

    Args:
        train: the images to train on, synthetic as a rule; features are pixels in [0, 1], row by row from the top left,
            with the channels of a pixel side by side.
        test: real images of at least two classes.
        shape: of the images.
        classes: number of classes; with two, class 1 is the positive one.
        networks: names of :data:`~noisegate.evaluation.networks.NETWORKS`.
        repeats: fresh starts of each network, with seeds from ``seed`` on.
        training: settings; None for the paper's without augmentation.
        seed: of the first start; public.
        jobs: processes; default: the cores that may be used. 1 stays in this process.
        progress: told after each training, and with ``jobs=1`` or on a GPU after each epoch.

    Returns:
        Scores per network and start. A network that cannot be trained has those of a constant predictor, and a note.

    Raises:
        OptionError: an unknown network, ``classes`` below 2, ``repeats`` or ``jobs`` below 1, or no such device.
        DataError: rows that are no such images, or fewer than two classes among the test labels.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    options = NetworkOptions(repeats=repeats, training=training or Training())
    names = read_networks(",".join(networks))
    if classes < 2:
        raise OptionError(f"classes is {classes}; expected at least 2")
    if jobs is not None and jobs < 1:
        raise OptionError(f"jobs is {jobs}; expected at least 1")
    train.check("training", classes)
    test.check("test", classes)
    if (found := len(np.unique(test.labels))) < 2:
        raise DataError(f"the test images have {found} class(es); scores need at least 2")
    protocol = NetworkList(
        version=NETWORKS_VERSION,
        names=names,
        shape=shape,
        training=options.training,
        device=device_name(options.training),
        seeds=tuple(range(seed, seed + repeats)),
    )
    return _report(protocol, _run(protocol, train, test, classes, jobs or usable_cores(), progress))


def _report(protocol: NetworkList, done: Mapping[tuple[str, int], Outcome]) -> NetworksReport:
    """The outcomes in the order of the list, whichever came first."""
    ordered = {name: [done[name, seed] for seed in protocol.seeds] for name in protocol.names}
    return NetworksReport(
        protocol=protocol,
        runs={name: tuple(outcome.scores for outcome in outcomes) for name, outcomes in ordered.items()},
        notes=tuple(
            f"{name}, seed {seed}: {note}"
            for name, outcomes in ordered.items()
            for seed, outcome in zip(protocol.seeds, outcomes, strict=True)
            for note in outcome.notes
        ),
        seconds={name: sum(outcome.seconds for outcome in outcomes) for name, outcomes in ordered.items()},
    )


def _run(
    protocol: NetworkList,
    train: LabelledRows,
    test: LabelledRows,
    classes: int,
    jobs: int,
    progress: Progress | None,
) -> dict[tuple[str, int], Outcome]:
    """The outcome of each network and seed."""
    done: dict[tuple[str, int], Outcome] = {}
    # The slow ones first, so that no core waits for one that was started last.
    names = sorted(protocol.names, key=lambda name: SLOW.index(name) if name in SLOW else len(SLOW))
    tasks = [(name, seed) for name in names for seed in protocol.seeds]

    def epochs(task: tuple[str, int]) -> EpochDone | None:
        if progress is None:
            return None
        return lambda epoch, all_of: progress(f"{_said(task)}, epoch {epoch} of {all_of}", len(done), len(tasks))

    one_by_one = jobs == 1 or len(tasks) == 1 or protocol.device != "cpu"
    outcomes = (
        ((task, _one(protocol, train, test, classes, task, epochs(task))) for task in tasks)
        if one_by_one
        else _side_by_side(protocol, train, test, classes, tasks, jobs)
    )
    with closing(outcomes):
        for task, outcome in outcomes:
            done[task] = outcome
            if progress is not None:
                progress(_said(task), len(done), len(tasks))
    return done


def _said(task: tuple[str, int]) -> str:
    return f"{task[0]}, seed {task[1]}"


def _one(
    protocol: NetworkList,
    train: LabelledRows,
    test: LabelledRows,
    classes: int,
    task: tuple[str, int],
    progress: EpochDone | None = None,
) -> Outcome:
    name, seed = task
    return train_and_score_network(
        name,
        train,
        test,
        shape=protocol.shape,
        classes=classes,
        training=protocol.training,
        seed=seed,
        progress=progress,
    )


def _side_by_side(
    protocol: NetworkList,
    train: LabelledRows,
    test: LabelledRows,
    classes: int,
    tasks: Sequence[tuple[str, int]],
    jobs: int,
) -> Generator[tuple[tuple[str, int], Outcome]]:
    """The outcomes, each as soon as it is there."""
    # scikit-learn's Parallel is joblib's, which maps large arrays into the processes instead of copying them.
    from sklearn.utils.parallel import Parallel, delayed

    run = Parallel(n_jobs=min(jobs, len(tasks)), return_as="generator_unordered", pre_dispatch="all")
    started = (delayed(_named)(protocol, train, test, classes, task) for task in tasks)
    return cast("Generator[tuple[tuple[str, int], Outcome]]", run(started))


def _named(
    protocol: NetworkList, train: LabelledRows, test: LabelledRows, classes: int, task: tuple[str, int]
) -> tuple[tuple[str, int], Outcome]:
    """The outcome with its task, because outcomes come in any order."""
    return task, _one(protocol, train, test, classes, task)
