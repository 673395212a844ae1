"""Trainings on public images, in every form that `noisegate.sources` reads: interrupted, kept, and resumed."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import torch
from torch import Tensor

from noisegate.errors import OptionError
from noisegate.models.checkpoint import joined, under
from noisegate.records import Images, Rows
from noisegate.schema import ImageForm, ImageShape, pixel_schema
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.parsing import is_text
from noisegate.settings import Settings, Within
from noisegate_images.sources.decode import ImageOrigin, ImageReadOptions
from noisegate_images.sources.find import find_images
from noisegate_images.sources.folders import ImageFolder, list_folder
from noisegate_images.sources.images import ImageSource, check_on_error
from noisegate_images.training.adam import Stateful

_AT_ONCE = 1024
LUMA = (0.299, 0.587, 0.114)  # red, green and blue in a grey intensity (ITU-R BT.601)


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicImages:
    """Public images of one size, red, green and blue, or grey."""

    pixels: npt.NDArray[np.uint8]  # (images, size, size, channels)
    labels: npt.NDArray[
        np.int64
    ]  # places in `classes`, (images,); all 0 where they were not asked for
    classes: tuple[
        str | int, ...
    ]  # every label that there is; none where they were not asked for
    skipped: int = 0  # pictures that were left out


def read_public_images(
    path: Path,
    *,
    size: int,
    channels: int = 3,
    label: str | None = "label",
    on_error: str = "refuse",
) -> PublicImages:
    """Returns all images at `path`, in colour or grey, resized, and cut to the square in their middle, of side `size`.

    A folder has a folder for each class or labels.csv; or it is Parquet, .npz, or MNIST's idx files; without labels,
    any folder of images. The labels are looked for in the data, which is allowed because it is public; a `label` of
    None leaves them alone. A picture that cannot be used is `on_error` to "refuse" the data, or to be left out, "skip".
    """
    check_on_error(on_error)
    origins = _found(path, size, label)
    classes = () if label is None else _classes(origins)
    if label is not None and len(classes) < 2:
        says = (
            f"{path}: an encoder learns to distinguish labels, and there is "
            f"{len(classes) or 'none'} in it"
        )
        raise OptionError(f"{says}; give images of two classes or more.")
    known: dict[str, Any] = (
        {"labels": None} if label is None else {"labels": classes, "label": label}
    )
    schema = pixel_schema(size, size, channels, **known, resize="crop", convert=True)
    source = ImageSource(path, schema, show_values=True, on_error=on_error)
    found = Rows.concatenate(list(source.batches()))
    assert isinstance(found, Images)
    return PublicImages(
        pixels=found.pixels,
        labels=np.zeros(len(found), np.int64)
        if found.labels is None
        else found.labels.astype(np.int64),
        classes=classes,
        skipped=source.skipped,
    )


def _found(path: Path, size: int, label: str | None) -> list[ImageOrigin]:
    """Returns the images at `path`, whose labels are not known yet."""
    # Text is let through where whole numbers are declared, so these two stand for all of them.
    labels = (0, 1) if label is not None else ()
    form = ImageForm(
        shape=ImageShape(height=size, width=size, channels=3),
        label=label,
        labels=labels,
    )
    origins = find_images(path, ImageReadOptions(form=form, show_values=True))
    if origins is None:
        what = (
            "it is not a set of images"
            if path.exists()
            else "there is no such file or folder of public images"
        )
        raise OptionError(
            f"{path}: {what}; expected a folder with a folder for each class or with labels.csv, Parquet with an "
            "image column, .npz, or idx files."
        )
    return origins


def _classes(origins: Sequence[ImageOrigin]) -> tuple[str | int, ...]:
    """Returns every label, in order; text after whole numbers, which the schema refuses beside each other."""
    found: set[str | int] = set()
    for origin in origins:
        if (
            not isinstance(origin, ImageFolder)
            or (listing := list_folder(origin.path)).files
            or not listing.folders
        ):
            origin.check()  # folders of classes are checked when their names are known
        for pictures in origin.batches(_AT_ONCE):
            assert pictures.labels is not None
            found |= _values(pictures.labels)
    return tuple(sorted(found, key=lambda value: (isinstance(value, str), value)))


def _values(labels: pa.Array) -> set[str | int]:
    """Returns the labels that there are; missing ones are refused by name when images are read."""
    plain = labels.dictionary_decode() if pt.is_dictionary(labels.type) else labels
    if is_text(plain.type):
        plain = pc.utf8_trim(plain, characters=TEXT_PADDING)
    return set(pc.unique(plain.drop_null()).to_pylist())


_S = TypeVar("_S", bound=Settings)
_MOST = 2**31
Whole = Annotated[int, Within(ge=0, lt=_MOST), "a whole number, 0 or more"]
Steps = Annotated[int, Within(ge=1, lt=_MOST), "a whole number, 1 or more"]
Batch = Annotated[int, Within(ge=2, lt=_MOST), "a whole number, 2 or more"]
Part = Annotated[float, Within(ge=0, le=1), "a number from 0 to 1"]


class Pretraining(ABC, Generic[_S]):
    """A training on public images; a `noisegate.models.checkpoint.Resumable`, whose state names what changes, `parts`.

    Every step is a function of the weights, the seed and its number: the same bits, on processors of one kind.
    """

    images: PublicImages
    settings: _S
    parts: Mapping[str, Stateful]
    step: int = 0

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps of the whole training."""

    @abstractmethod
    def _descend(self) -> float:
        """Takes a step and returns its loss."""

    def state_dict(self) -> dict[str, Tensor]:
        """Returns everything that `load_state_dict` needs to continue with the same bits."""
        parts = joined(**{name: part.state_dict() for name, part in self.parts.items()})
        return parts | {
            "step": torch.tensor(self.step),
            "training": torch.tensor(list(self._fingerprint)),
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called; a ValueError if that was with other images or options."""
        if bytes(tensors["training"].tolist()) != self._fingerprint:
            raise ValueError("it was left by a training with other images or options")
        for name, part in self.parts.items():
            part.load_state_dict(under(tensors, f"{name}/"))
        self.step = int(tensors["step"])

    def run(self, report: Callable[[int, float], None] | None = None) -> None:
        """Runs the remaining steps; `report` is called after each with the number of steps done and the loss."""
        # Sums of subnormal numbers are slow; the switch is of the whole thread, NumPy included, and is set back.
        torch.set_flush_denormal(True)
        try:
            while self.step < self.steps:
                loss = self._descend()
                self.step += 1
                if report:
                    report(self.step, loss)
        finally:
            torch.set_flush_denormal(False)

    @cached_property
    def _fingerprint(self) -> bytes:
        settings: Any = self.settings
        digest = hashlib.sha256(json.dumps(asdict(settings), sort_keys=True).encode())
        digest.update(repr(self.images.classes).encode())
        digest.update(self.images.labels.tobytes())
        digest.update(self.images.pixels.data)
        return digest.digest()
