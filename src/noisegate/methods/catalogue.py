"""Names to methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from noisegate.errors import OptionError
from noisegate.methods.automatic import AUTO
from noisegate.methods.dre.method import DPDRE
from noisegate.methods.gan.features import DPGANInversion
from noisegate.methods.gan.finetuned import DPGANFineTuned
from noisegate.methods.gan.method import DPCGAN, DPGAN
from noisegate.methods.graphical import AIM, MST
from noisegate.methods.hp.method import DPHP
from noisegate.methods.joint import JointEmbedding
from noisegate.methods.llm import DPLLM
from noisegate.methods.mepf.method import DPMEPF
from noisegate.methods.mepf.trained import DPMEPFTrained
from noisegate.methods.merf import DPMERF
from noisegate.methods.method import Method
from noisegate.methods.mge.method import DPMGE
from noisegate.methods.pairwise.method import Pairwise
from noisegate.methods.psg.method import PrivateSetGeneration
from noisegate.privacy.certificate import Certificate

METHODS: dict[str, type[Method]] = {
    "aim": AIM,
    "dp-cgan": DPCGAN,
    "dp-dre": DPDRE,
    "dp-gan": DPGAN,
    "dp-gan-ft": DPGANFineTuned,
    "dp-gan-mi": DPGANInversion,
    "dp-hp": DPHP,
    "dp-mepf": DPMEPF,
    "dp-mepf-trained": DPMEPFTrained,
    "dp-merf": DPMERF,
    "dp-mge": DPMGE,
    "joint": JointEmbedding,
    "mepf": DPMEPF,
    "mst": MST,
    "pairwise": Pairwise,
    "psg": PrivateSetGeneration,
}
"""Those that make synthetic records."""

SEEDED_FITS = frozenset({"pairwise", "aim", "mst"})
"""Methods whose questions do not depend on their seed: what they released can be fitted with another one."""
CLASSIFIERS: dict[str, type[DPLLM]] = {"dp-llm": DPLLM}
"""Those that train a classifier, which draws no records."""

AnyMethod: TypeAlias = Method | DPLLM


def method_named(name: str) -> type[Method]:
    """Returns the method called `name`, which makes records; "auto" is the one for tables.

    What "auto" is for images, the schema must say: see `methods.for_images.make_for`.

    Raises:
        OptionError: if there is none.
    """
    if name in CLASSIFIERS:
        raise OptionError(
            f"method={name!r} trains a classifier and makes no records; take noisegate.LocallyLinearMaps or "
            f"`noisegate fit --method {name}` for it, or another method for records."
        )
    if name == AUTO:
        return Pairwise
    if name not in METHODS:
        known = [AUTO, *sorted([*METHODS, *CLASSIFIERS])]
        raise OptionError(f"method={name!r} is not known; choose one of {', '.join(known)}.")
    return METHODS[name]


def make_method(name: str, settings: Mapping[str, Any]) -> Method:
    """Returns the method called `name`, which makes records, with some of its settings changed.

    Raises:
        OptionError: if there is no such method or setting, or a value is unusable.
    """
    method = method_named(name)
    _check_settings(name, method, settings)
    return method(**settings)


def make_any(name: str, settings: Mapping[str, Any]) -> AnyMethod:
    """Returns the method called `name`, whatever it makes, with some of its settings changed.

    Raises:
        OptionError: if there is no such method or setting, or a value is unusable.
    """
    if name not in CLASSIFIERS:
        return make_method(name, settings)
    _check_settings(name, CLASSIFIERS[name], settings)
    return CLASSIFIERS[name](**settings)


def method_of(certificate: Certificate, *, seed: int | None = None) -> AnyMethod:
    """Returns the method, with its settings, that a certificate speaks of.

    Args:
        certificate: Of a release.
        seed: What the fit of the release is to draw from, instead of the seed of the release; None for that one.

    Raises:
        OptionError: if the questions themselves were drawn from the seed of the release, and `seed` is another.
    """
    settings = certificate.public.get("settings", {})
    if seed is not None and seed != settings.get("seed"):
        if certificate.method not in SEEDED_FITS:
            raise OptionError(
                f"--seed {seed}: what was released was asked with seed {settings.get('seed')}, and can only be fitted "
                "with that; leave --seed out."
            )
        settings = {**settings, "seed": seed}
    return method_from(certificate.method, settings)


def method_from(name: str, settings: Mapping[str, Any]) -> AnyMethod:
    """Returns the method called `name` with the settings that its `to_json` gave.

    Raises:
        OptionError: if there is no such method.
        ModelError: if a setting is missing or not known.
    """
    return (CLASSIFIERS[name] if name in CLASSIFIERS else method_named(name)).from_json(settings)


def _check_settings(name: str, method: type[AnyMethod], settings: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(method) if field.init]
    for setting in settings:
        if setting not in known:
            raise OptionError(
                f"{setting}={settings[setting]!r}: {name} has no such setting; it has {', '.join(known)}."
            )
