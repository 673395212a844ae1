"""What a method must be told where records are images: taken from the schema, so that nobody has to say it twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from typing import Any

from noisegate.errors import OptionError
from noisegate.methods.automatic import AUTO, auto_for
from noisegate.methods.catalogue import METHODS, AnyMethod, make_any
from noisegate.methods.generator_choice import TABLES
from noisegate.methods.joint_settings import default_channels
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape


def make_for(name: str, schema: Schema, settings: Mapping[str, Any]) -> AnyMethod:
    """Returns the method called `name` for the records of a schema, with some of its settings changed.

    Args:
        name: Of the method; "auto" for the one that does best for such records, as far as public facts tell.
        schema: Of the records; where they are images, settings that follow from it need not be given.
        settings: By name.

    Raises:
        OptionError: if there is no such method or setting, or a value is unusable.
    """
    chosen = auto_for(schema) if name == AUTO else name
    return make_any(chosen, image_settings(chosen, schema, settings))


def image_settings(name: str, schema: Schema, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `settings` with those that follow from the images of the schema, where they are not given.

    Every method that knows images is told their shape. DP-MERF and DP-HP, whose default is a generator of tables, get
    the convolutional one. Where a side of the images is no multiple of what a method's network, cells or pooling
    need, it gets the fully connected network, other cells, or none. A generator of tables stays if it is asked for.

    Args:
        name: Of the method.
        schema: Of the records.
        settings: What was asked for, by name.
    """
    if not isinstance(name, str):
        raise OptionError(f"method={name!r} must be the name of a method, such as 'pairwise'.")
    known = {field.name for field in fields(METHODS[name])} if name in METHODS else set[str]()
    if schema.images is None or "image" not in known or settings.get("generator") in TABLES:
        return dict(settings)
    shape = schema.images.shape
    found: dict[str, Any] = {"image": astuple(shape)}
    if name in _NETWORK:
        fits = _divide(shape, 1 << len(settings.get("channels") or _channels(name, shape)))
        found[_NETWORK[name]] = _CONVOLUTIONAL.get(name) if fits else "fully-connected"
    if name == "joint" and not _divide(shape, _CELLS[0]):
        cell = next((cell for cell in _CELLS if _divide(shape, cell)), None)
        found |= {"orientations": 0} if cell is None else {"cell": cell}
    if name == "dp-hp" and not _divide(shape, 2):
        found["pool"] = 1
    return {option: value for option, value in found.items() if value is not None} | dict(settings)


_NETWORK = {
    "dp-merf": "generator",
    "dp-hp": "generator",
    "joint": "generator",
    "mepf": "generator",
    "dp-mepf": "generator",
    "dp-mepf-trained": "generator",
    "dp-gan": "network",
    "dp-cgan": "network",
}
"""What each method calls the kind of its generator."""

_CONVOLUTIONAL = {"dp-merf": "convolutional", "dp-hp": "convolutional"}
"""The kind that it gets, where its default is not of images."""

_CELLS = (4, 6, 2, 8)
"""Sides of the cells of gradient orientations, in pixels: the default first."""


def _divide(shape: ImageShape, side: int) -> bool:
    return not (shape.height % side or shape.width % side)


def _channels(name: str, shape: ImageShape) -> Sequence[int]:
    """Returns channels of the kind of network that a method has by default: one for each doubling of the picture."""
    return default_channels(shape, "sub-pixel" if name == "joint" else "convolutional")
