"""Which releases may be added up: of different silos, of one plan, of the same round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noisegate.errors import ModelError, OptionError
from noisegate.methods.registry import method_of
from noisegate.privacy.certificate import Certificate, canonical_json
from noisegate.privacy.masks import SecureSum
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.silos.keys import check_shares
from noisegate.silos.published import plan_id, plan_of


def check_of_one_round(releases: Sequence[Release], after: Release | None) -> SecureSum | None:
    """Checks that releases are of different silos, and of one round; returns the secure sum that they are shares of.

    Raises:
        OptionError: if they cannot be added up; says which, and why.
        ModelError: if one is not what its certificate states.
    """
    _check_silos(releases)
    first = releases[0].certificate
    for release in releases[1:]:
        _check_same_plan(first, release.certificate)
    _check_plan(first, releases[0])
    _check_round(releases, after)
    shared = check_shares(releases)
    shapes = [{name: values.shape for name, values in release.values.items()} for release in releases]
    for release, shape in zip(releases, shapes, strict=True):
        if shape != shapes[0]:
            raise ModelError(f"silo {silo_of(release)!r} answered other questions than {silo_of(releases[0])!r}.")
    return shared


def silo_of(release: Release) -> str:
    """Returns the name of the silo that a release is of."""
    certificate = release.certificate
    if certificate.silos is not None:
        raise OptionError("a release is merged already; give the releases of the silos, each once.")
    name = certificate.public.get("silo")
    if not isinstance(name, str) or not isinstance(certificate.public.get("plan"), str):
        raise OptionError("a release names no silo and no plan: `noisegate release` makes those that can be merged.")
    return name


def budget_of(certificate: Certificate) -> Budget:
    """Returns the budget of a certificate; of several silos, that of the first one."""
    first = certificate if certificate.silos is None else certificate.silos.members[0]
    guarantee = {name: getattr(certificate, name) for name in ("adjacency", "unit", "contributions")}
    return Budget(epsilon=first.epsilon, delta=first.delta, **guarantee)


def _check_silos(releases: Sequence[Release]) -> None:
    if len(releases) < 2:
        raise OptionError(f"releases: {len(releases)} given; give those of two silos or more.")
    seen: dict[str, str] = {}
    for release in releases:
        name, digest = silo_of(release), release.certificate.digest()
        if name in seen:
            again = "the same release" if seen[name] == digest else "two releases"
            raise OptionError(f"silo {name!r} is there twice, with {again}: its records would count twice. Give one.")
        seen[name] = digest


def _check_round(releases: Sequence[Release], after: Release | None) -> None:
    """Checks that all silos went on from the merged release that is given, and that it is of the same silos."""
    expected = None if after is None else after.certificate.digest()
    for release in releases:
        stated, silo = release.certificate.public.get("after"), silo_of(release)
        if stated == expected:
            continue
        if stated is None:
            raise OptionError(
                f"after: silo {silo!r} answered the first round; leave the option out, or give its answers to the next."
            )
        given = "none is given" if expected is None else f"what is given is {expected[:16]}"
        raise OptionError(
            f"after: silo {silo!r} went on from the merged release {str(stated)[:16]}, and {given}. Give the folder "
            "that `noisegate merge` made of the round before."
        )
    if after is None or after.certificate.silos is None:
        return
    before, now = {silo.name for silo in after.certificate.silos.members}, set(map(silo_of, releases))
    if before != now:
        raise OptionError(
            f"after: the round before is of the silos {', '.join(sorted(before))}, this one of "
            f"{', '.join(sorted(now))}. All must answer both, or their sums would be of different records."
        )


def _check_same_plan(first: Certificate, other: Certificate) -> None:
    """Refuses two plans, and says in what they differ."""
    if first.public["plan"] == other.public["plan"]:
        return
    facts = {
        "method": (first.method, other.method),
        "adjacency": (first.adjacency.value, other.adjacency.value),
        "unit": (first.unit, other.unit),
        "contributions": (first.contributions, other.contributions),
        **_settings(first.public, other.public),
    }
    told = f"silos {first.public['silo']!r} and {other.public['silo']!r} asked by different plans, "
    told += f"{first.public['plan'][:16]} and {other.public['plan'][:16]}"
    if canonical_json(first.public["schema"]) != canonical_json(other.public["schema"]):
        raise OptionError(f"{told}: their schemas differ. Give all silos one published plan, which holds the schema.")
    differ = [f"{name} is {one!r} and {two!r}" for name, (one, two) in facts.items() if one != two]
    why = "; ".join(differ) or "they ask different questions"
    raise OptionError(f"{told}: {why}. Release again under one published plan.")


def _settings(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    mine, other = one.get("settings", {}), two.get("settings", {})
    return {name: (mine.get(name), other.get(name)) for name in {**mine, **other}}


def _check_plan(certificate: Certificate, release: Release) -> None:
    """Checks that a plan's identifier is that of what the certificate says was asked."""
    method, schema = method_of(certificate), release.schema
    found = plan_id(method, schema, plan_of(method, schema, budget_of(certificate)))
    if found != certificate.public["plan"]:
        raise ModelError(
            f"silo {certificate.public['silo']!r} states the plan {certificate.public['plan'][:16]}, and its settings "
            f"are those of {found[:16]}: do not rely on it. If it was released by another version, which is "
            f"{certificate.version}, merge with that one."
        )
