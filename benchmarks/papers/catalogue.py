"""Names to data sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from noisegate.errors import OptionError
from papers import (
    adult,
    census,
    cervical,
    covtype,
    credit,
    epileptic,
    images,
    intrusion,
    isolet,
)
from papers.published import Loaded, Published

DATASETS: dict[str, tuple[Published, Callable[..., Loaded]]] = {
    "adult": (adult.ADULT, adult.load),
    "census": (census.CENSUS, census.load),
    "cervical": (cervical.CERVICAL, cervical.load),
    "cifar10": (images.CIFAR, images.load_cifar),
    "cifar10-grey": (images.CIFAR_GREY, images.load_grey),
    "covtype": (covtype.COVTYPE, covtype.load),
    "credit": (credit.CREDIT, credit.load),
    "epileptic": (epileptic.EPILEPTIC, epileptic.load),
    "fashion-mnist": (images.FASHION, images.load_fashion),
    "intrusion": (intrusion.INTRUSION, intrusion.load),
    "isolet": (isolet.ISOLET, isolet.load),
    "isolet-test": (isolet.ISOLET_TEST, isolet.load_test),
    "mnist": (images.MNIST, images.load_mnist),
    "mnist-8k": (images.MNIST_8K, images.load_few),
}
IMAGES = ("mnist", "mnist-8k", "fashion-mnist", "cifar10", "cifar10-grey")
TABLES = tuple(name for name in DATASETS if name not in IMAGES)
"""The tabular data sets of the papers."""


def published(name: str) -> Published:
    """Returns what is publicly known about a data set.

    Raises:
        OptionError: if there is none of that name.
    """
    if name not in DATASETS:
        raise OptionError(
            f"dataset={name!r} is not known; choose one of {', '.join(DATASETS)}."
        )
    return DATASETS[name][0]


def load(name: str, folder: str | Path, *, seed: int = 0) -> Loaded:
    """Returns a data set of the papers, read from the files of its publisher.

    Args:
        name: one of `DATASETS`.
        folder: where the files are.
        seed: of the split into training and test records, public; no matter where the publisher split them.

    Returns:
        Training records, test records and schema. Nothing in the schema was read off the records.

    Raises:
        OptionError: if there is no data set of that name.
        DataError: if a file is missing or broken.
    """
    published(name)
    return DATASETS[name][1](Path(folder), seed=seed)
