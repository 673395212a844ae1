"""The settings of DP-HP that depend on its generator, and the checks of all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from noisegate.errors import OptionError
from noisegate.features.hermite import check_order, rho_of
from noisegate.methods.generator_choice import Generator, check_generator
from noisegate.methods.hp.design import ProductKind


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """See `DPHP`. Chosen on public and simulated tables and images; docs/choosing.md says which."""

    length_scale: float
    product_length_scale: float
    product_rank: int | None
    pool: int
    most_coordinates: int
    reference: float | None
    sum_bound: float
    product_bound: float
    latent: int
    hidden: tuple[int, ...]
    fit: Mapping[str, Any]

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of `DPHP` by name, without the options of the fit."""
        return {name: value for name, value in vars(self).items() if name != "fit"}


_IMAGE_FIT: Mapping[str, Any] = {
    "steps": 1500,
    "batch": 200,
    "learning_rate": 5e-3,
    "averaging": 0.998,
    "stop_at_noise": False,
    "check_every": 500,
}
_IMAGE = Defaults(
    length_scale=0.3,
    product_length_scale=0.5,
    product_rank=1,
    pool=2,
    most_coordinates=20_000,
    reference=None,
    sum_bound=1.0,
    product_bound=1.0,
    latent=32,
    hidden=(200,),
    fit=_IMAGE_FIT,
)
_TABLE = Defaults(
    length_scale=0.05,
    product_length_scale=0.1,
    product_rank=None,
    pool=1,
    most_coordinates=200_000,
    reference=None,
    sum_bound=1.0,
    product_bound=1.0,
    latent=32,
    hidden=(256, 256),
    fit={"steps": 1000, "learning_rate": 0.1},
)
DEFAULTS: Mapping[Generator, Defaults] = {
    "mixture": _TABLE,
    "table": replace(_TABLE, fit={}),
    "convolutional": _IMAGE,
    "fully-connected": _IMAGE,
    "sub-pixel": _IMAGE,
    "residual": _IMAGE,
}
"""By generator."""

# Four int64 sums for each coordinate, and a block of 256 vectors as float32, scaled, and rounded.
_BYTES_A_COORDINATE = 4 * 8
_BYTES_A_FEATURE = 256 * 3 * 4


def defaults_of(generator: Any) -> Defaults:
    """Returns the defaults of the settings that depend on the generator.

    Raises:
        OptionError: if there is no such generator.
    """
    check_generator(generator)
    return DEFAULTS[generator]


def check_numbers(settings: Mapping[str, Any]) -> None:
    """Checks every setting that is a number or a choice.

    Raises:
        OptionError: if one is unusable.
    """
    for name in ("product_columns", "draws", "most_coordinates", "memory", "components", "latent", "pool"):
        value = settings[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"{name}={value!r} must be a positive whole number.")
    for name in ("length_scale", "product_length_scale"):
        _named(name, lambda value=settings[name]: rho_of(value))
    for column, scale in settings["length_scales"].items():
        _named(f"length_scales[{column!r}]", lambda scale=scale: rho_of(scale))
    for name in ("order", "product_order"):
        if settings[name] is not None:
            check_order(settings[name], name)
        elif not settings["moved"]:
            raise OptionError(f"{name}=None: with moved=False the series is the paper's; say at which order to cut it.")
    rank = settings["product_rank"]
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int) or rank < 1):
        raise OptionError(f"product_rank={rank!r} must be a positive whole number, or nothing for all directions.")
    for name in ("sum_share", "product_share", "counts_share"):
        value = settings[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            raise OptionError(f"{name}={value!r} must be a positive number, relative to the other shares.")
    for name in ("sum_bound", "product_bound"):
        value = settings[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= 1:
            raise OptionError(
                f"{name}={value!r} must lie between 0.001 and 1, a share of the largest norm there can be."
            )
    reference = settings["reference"]
    if reference is not None and (isinstance(reference, bool) or not isinstance(reference, int | float)):
        raise OptionError(f"reference={reference!r} must be a number from 0 to 1, or nothing.")
    if reference is not None and not 0 <= reference <= 1:
        raise OptionError(f"reference={reference!r} must lie between 0 and 1, in units of a column's range.")
    if settings["products"] not in get_args(ProductKind):
        raise OptionError(f"products={settings['products']!r}: choose one of {', '.join(get_args(ProductKind))}.")
    if not isinstance(settings["kept"], float) or not 0 < settings["kept"] < 1:
        raise OptionError(f"kept={settings['kept']!r} must lie between 0 and 1, for instance 0.9.")


def _named(name: str, check: Any) -> None:
    try:
        check()
    except OptionError as error:
        raise OptionError(str(error).replace("length_scale=", f"{name}=", 1)) from None


def check_memory(name: str, *, dim: int, columns: int, widths: tuple[int, ...], memory: int) -> None:
    """Checks that a question can be summed, before anything is spent.

    Args:
        name: Of the question.
        dim: Coordinates of one record's vector.
        columns: Of the answer, one for each label value.
        widths: Coordinates of each column of its largest group.
        memory: What may be used, in megabytes.

    Raises:
        OptionError: if it takes more memory; says how much, and what would fit.
    """
    needed = (dim * _BYTES_A_FEATURE + dim * columns * _BYTES_A_COORDINATE) / 1e6
    if needed <= memory:
        return
    fits = int(memory * 1e6 / (_BYTES_A_FEATURE + columns * _BYTES_A_COORDINATE))
    width = max(int(fits ** (1 / len(widths)) + 1e-9), 1)
    cure = f"a product of {len(widths)} columns fits with {width} coordinates each, that is order {width - 1}"
    if len(widths) > 1 and max(widths) > 1:
        cure += (
            f", or {max(int(math.log(fits) / math.log(max(widths))), 1)} columns with {max(widths)} coordinates each"
        )
    raise OptionError(
        f"question {name!r} has {dim:,} x {columns} coordinates and would take {needed:,.0f} MB at the gate, more than "
        f"memory={memory} MB: {cure}. Lower product_order or product_columns, or raise memory."
    )
