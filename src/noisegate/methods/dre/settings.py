"""The settings of DP-DRE: what others need to know of them, those of the paper, and checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any, Protocol

from noisegate.errors import OptionError
from noisegate.methods.generator_choice import read_shape
from noisegate.methods.numbers import is_number, put_widths
from noisegate.seeds import check_seed

OF_RECORDS: Any = None
"""Stands for the default of images or of tables until a method is made."""

PAPER: Mapping[str, Any] = {"hidden": (16,), "steps": 3000, "rate": 64 / 50_000, "learning_rate": 1e-3, "norm": 1.0}
"""Of CIFAR-10 in the paper: 16 hidden units, 3,000 steps and batches of 64 by its Table 4; rate and norm are guesses.

The text that we have of its appendix C says that both are fixed, and leaves out the numbers.
"""

LONGEST = 2.0
"""The longest clipping norm that is chosen where none was asked for."""

LOUDEST = 8.65
"""Where none was asked for: the most noise on each number of a sum of gradients, in the units of the gradients.

It is what 500 steps at ε = 1 have with the longest norm. With more noise in a step, Adam follows nothing else: at
ε = 0.1 a shorter norm, which changes the gradients but lets them be heard, is worth more (docs/public-data.md).
"""

_WHOLE = ("references", "dimensions", "steps", "batch")
_POSITIVE = ("length", "learning_rate", "most_weight")
_SHARES = ("rate", "averaged")
_TEXTS = ("network", "weights", "sha256", "layer", "decoder", "decoder_sha256")


class Asked(Protocol):
    """The settings that say what is public, and how records are compared; see `noisegate.methods.dre.method.DPDRE`."""

    @property
    def public(self) -> Any: ...  # noqa: D102 - documented there

    @property
    def references(self) -> int: ...  # noqa: D102

    @property
    def public_labels(self) -> bool: ...  # noqa: D102

    @property
    def image(self) -> tuple[int, int, int] | None: ...  # noqa: D102

    @property
    def network(self) -> str: ...  # noqa: D102

    @property
    def weights(self) -> str | None: ...  # noqa: D102

    @property
    def sha256(self) -> str | None: ...  # noqa: D102

    @property
    def layer(self) -> str | None: ...  # noqa: D102

    @property
    def decoder(self) -> str: ...  # noqa: D102

    @property
    def decoder_sha256(self) -> str | None: ...  # noqa: D102

    @property
    def dimensions(self) -> int: ...  # noqa: D102

    @property
    def whitening(self) -> float: ...  # noqa: D102

    @property
    def length(self) -> float: ...  # noqa: D102

    @property
    def seed(self) -> int: ...  # noqa: D102


def complete_settings(method: Any) -> None:
    """Puts defaults in their places in a new frozen `DPDRE`, and lists of JSON as tuples.

    Raises:
        OptionError: if a setting is unusable.
    """
    if method.public_labels is OF_RECORDS:
        object.__setattr__(method, "public_labels", method.image is None)
    _check_numbers(method)
    put_widths(method, ("hidden",))
    for option in _TEXTS:
        value = getattr(method, option)
        if not isinstance(value, str) and (value is not None or option in ("network", "decoder")):
            raise OptionError(f"{option}={value!r} must be text.")
    if not isinstance(method.public_labels, bool):
        raise OptionError(f"public_labels={method.public_labels!r} must be True or False.")
    if method.image is None and method.decoder != "public":
        raise OptionError(f"decoder={method.decoder!r} makes images; of a table, public rows are handed out.")
    if isinstance(method.public, Path):
        object.__setattr__(method, "public", str(method.public))
    if method.image is not None:
        object.__setattr__(method, "image", astuple(read_shape(method.image)))


def norm_under(noise_multiplier: float) -> float:
    """Returns the clipping norm for a noise multiplier, both public: `LONGEST`, or less where the noise is loud."""
    return LONGEST if noise_multiplier * LONGEST <= LOUDEST else LOUDEST / noise_multiplier


def _check_numbers(method: Any) -> None:
    for option in _WHOLE:
        value, least = getattr(method, option), 2 if option == "references" else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise OptionError(f"{option}={value!r} must be a whole number, {least} or more.")
    for option in (*_POSITIVE, *(["norm"] if method.norm is not None else [])):
        if not is_number(getattr(method, option)) or not 0 < getattr(method, option) <= 1e6:
            raise OptionError(f"{option}={getattr(method, option)!r} must be a number above 0, at most 1e6.")
    for option in _SHARES:
        if not is_number(getattr(method, option)) or not 0 < getattr(method, option) <= 1:
            raise OptionError(f"{option}={getattr(method, option)!r} must be a number above 0, at most 1.")
    if not is_number(method.whitening) or not 0 <= method.whitening <= 1:
        raise OptionError(f"whitening={method.whitening!r} must be a number from 0 to 1.")
    check_seed(method.seed)
