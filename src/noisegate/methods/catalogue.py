"""Names to methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from noisegate.errors import OptionError
from noisegate.methods.merf import DPMERF
from noisegate.privacy.certificate import Certificate

METHODS: dict[str, type[DPMERF]] = {"dp-merf": DPMERF}


def method_named(name: str) -> type[DPMERF]:
    """Returns the method called `name`.

    Raises:
        OptionError: if there is none.
    """
    if name not in METHODS:
        raise OptionError(f"method={name!r} is not known; choose one of {', '.join(sorted(METHODS))}.")
    return METHODS[name]


def make_method(name: str, settings: Mapping[str, Any]) -> DPMERF:
    """Returns the method called `name` with some of its settings changed.

    Raises:
        OptionError: if there is no such method or setting, or a value is unusable.
    """
    method = method_named(name)
    known = [field.name for field in fields(method) if field.init]
    for setting in settings:
        if setting not in known:
            raise OptionError(
                f"{setting}={settings[setting]!r}: {name} has no such setting; it has {', '.join(known)}."
            )
    return method(**settings)


def method_of(certificate: Certificate) -> DPMERF:
    """Returns the method, with its settings, that a certificate speaks of."""
    return method_named(certificate.method).from_json(certificate.public.get("settings", {}))
