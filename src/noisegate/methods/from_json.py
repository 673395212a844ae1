"""Methods from the settings that a certificate holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from noisegate.errors import ModelError, OptionError

_M = TypeVar("_M")


def method_from_json(kind: type[_M], data: Mapping[str, Any]) -> _M:
    """Returns the method of a class, a dataclass of settings, whose settings are in a JSON object.

    Raises:
        ModelError: if a setting is missing or not known.
    """
    try:
        return kind(**data)
    except (TypeError, OptionError) as error:
        name = kind.__dataclass_fields__["name"].default  # type: ignore[attr-defined]
        raise ModelError(f"the settings of {name} in the certificate are broken: {error}") from None
