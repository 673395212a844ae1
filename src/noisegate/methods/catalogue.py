"""Names to methods."""

from __future__ import annotations

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


def method_of(certificate: Certificate) -> DPMERF:
    """Returns the method, with its settings, that a certificate speaks of."""
    return method_named(certificate.method).from_json(certificate.public.get("settings", {}))
