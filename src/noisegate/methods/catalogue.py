"""Names to methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from noisegate.errors import OptionError
from noisegate.methods.automatic import AUTO
from noisegate.methods.graphical import AIM, MST
from noisegate.methods.hp import DPHP
from noisegate.methods.merf import DPMERF
from noisegate.methods.method import Method
from noisegate.methods.pairwise import Pairwise
from noisegate.privacy.certificate import Certificate

METHODS: dict[str, type[Method]] = {"aim": AIM, "dp-hp": DPHP, "dp-merf": DPMERF, "mst": MST, "pairwise": Pairwise}


def method_named(name: str) -> type[Method]:
    """Returns the method called `name`; "auto" is the one that does best where nothing else is known.

    Raises:
        OptionError: if there is none.
    """
    if name == AUTO:
        return Pairwise
    if name not in METHODS:
        raise OptionError(f"method={name!r} is not known; choose one of {', '.join([AUTO, *sorted(METHODS)])}.")
    return METHODS[name]


def make_method(name: str, settings: Mapping[str, Any]) -> Method:
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


def method_of(certificate: Certificate) -> Method:
    """Returns the method, with its settings, that a certificate speaks of."""
    return method_named(certificate.method).from_json(certificate.public.get("settings", {}))
