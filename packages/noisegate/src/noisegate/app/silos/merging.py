"""Releases of several silos, added up and not averaged: post-processing, which anyone can do who has them.

Added and not averaged: a mean would count the records of small silos more. Variances of
independent noise add up too.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path

from noisegate.app.runs.folder import Observer, RunFolder
from noisegate.app.runs.work import fit_run
from noisegate.app.silos.rounds import merged_noise, plan_id, plan_of, read_release
from noisegate.errors import ModelError, OptionError
from noisegate.gate.silos.keys import SecureSum, check_shares, unmasked
from noisegate.methods.registry import method_of
from noisegate.models.record_model import FittedModel
from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate, canonical_json
from noisegate.privacy.grid import Grid
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release, array_hashes, release_arrays
from noisegate.privacy.silos import Silo, Silos

NOBODY = "Whoever merged them"
"""Who states that silos are disjoint, if nobody is named."""
_OWN = ("silo", "after", "records", "adaptive", "secure_sum")


def merge(
    releases: Sequence[Release | str | Path],
    *,
    after: Release | str | Path | None = None,
    overlapping: bool = False,
    stated_by: str | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    observer: Observer | None = None,
) -> Release | FittedModel:
    """Returns the model of what several silos released; of a round that is not the last, what all silos need next.

    Costs nothing more, and needs no record.

    The ``releases`` are what `release` gave for each silo, or the folders, and ``after`` is the merged release of the
    rounds before. If a unit may have records in several silos (``overlapping``), their costs add up; else the largest
    counts, and the certificate says who states that no unit has (``stated_by``). ``out`` is a folder to make; None
    keeps what is made in memory only. For ``device`` and ``observer`` see `fit`.

    Raises:
        UserError: if they are not of one plan and one round, a silo is there twice, or anything was changed.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, merge, release
        >>> from noisegate.schema import Boolean
        >>> asked = {"schema": Schema([Boolean(name="ill")]), "epsilon": 1.0}
        >>> north = release(pa.table({"ill": [True, False] * 100}), silo="north", **asked)
        >>> south = release(pa.table({"ill": [True, True] * 100}), silo="south", **asked)
        >>> model = merge([north, south], stated_by="the registry")
        >>> model.certificate.epsilon, len(model.certificate.silos.members)
        (1.0, 2)
    """
    earlier = (
        after
        if after is None or isinstance(after, Release)
        else read_release(Path(after))
    )
    read = [
        one if isinstance(one, Release) else read_release(Path(one)) for one in releases
    ]
    merged = add_up(read, after=earlier, overlapping=overlapping, stated_by=stated_by)
    folder = RunFolder(None if out is None else Path(out), observer=observer)
    certificate, schema = merged.certificate, merged.schema
    assert certificate.silos is not None
    method, budget = method_of(certificate), _budget_of(certificate)
    noise = merged_noise(method, schema, certificate.silos, budget)
    if not method.next_round(
        schema, plan_of(method, schema, budget), merged.values, noise
    ):
        return fit_run(merged, folder, device=device)
    if folder.out is not None:
        with folder.prepared(sum(values.size for values in merged.values.values())):
            folder.keep(merged)
        folder.hand_out()
    return merged


def add_up(
    releases: Sequence[Release],
    *,
    after: Release | None = None,
    overlapping: bool = False,
    stated_by: str | None = None,
) -> Release:
    """Returns the sum of releases of one round, with that of the rounds before."""
    shared = _check_of_one_round(releases, after)
    values, noise_std = (
        ({}, {}) if after is None else (dict(after.values), dict(after.noise_std))
    )
    first = releases[0].certificate
    grids: dict[str, Grid] = {}
    if shared is not None:
        plan = plan_of(method_of(first), releases[0].schema, _budget_of(first))
        grids = {release.query.name: release.query.grid for release in plan.releases}
    for name in releases[0].values:
        if shared is None:
            values[name] = reduce(add, (release.values[name] for release in releases))
        else:
            values[name] = grids[name].restore(unmasked(releases, name))
        noise_std[name] = (
            sum(release.noise_std[name] ** 2 for release in releases) ** 0.5
        )
    silos = _silos(releases, after, overlapping, stated_by)
    if shared is not None:
        silos = replace(silos, colluding=shared.colluding)
    rounds = (first,) if after is None else (after.certificate, first)
    public = {name: fact for name, fact in first.public.items() if name not in _OWN} | {
        "records": None
    }
    if adaptive := [name for one in rounds for name in one.public.get("adaptive", ())]:
        public["adaptive"] = adaptive
    delta, adjacency = max(silo.delta for silo in silos.members), first.adjacency
    epsilon = max(silo.epsilon for silo in silos.members)
    if silos.overlapping:
        epsilon = max(
            epsilon,
            accounting.epsilon(
                silos.costliest_group(delta, adjacency), delta, adjacency
            ),
        )
    certificate = Certificate(
        epsilon=epsilon,
        delta=delta,
        events=replace(silos, overlapping=False).costliest_group(
            delta, adjacency
        ),  # of the silo that paid most
        adjacency=adjacency,
        unit=first.unit,
        contributions=first.contributions,
        method=first.method,
        public=public,
        hashes=array_hashes(release_arrays(values, noise_std)),
        silos=silos,
    )
    return Release(values=values, noise_std=noise_std, certificate=certificate)


def _silos(
    releases: Sequence[Release],
    after: Release | None,
    overlapping: bool,
    stated_by: str | None,
) -> Silos:
    if overlapping and stated_by is not None:
        cure = "overlapping says that some may have. Leave one of them out."
        raise OptionError(
            f"stated_by={stated_by!r} names who states that no unit has records in two silos; {cure}"
        )
    done = None if after is None else after.certificate.silos
    before = {} if done is None else {silo.name: silo for silo in done.members}
    members = []
    for release in releases:
        one = release.certificate
        silo = Silo(
            name=_silo(release),
            certificates=(one.digest(),),
            epsilon=one.epsilon,
            delta=one.delta,
            events=one.events,
        )
        if (earlier := before.get(silo.name)) is not None:
            certificates, events = (
                earlier.certificates + silo.certificates,
                earlier.events + silo.events,
            )
            silo = replace(silo, certificates=certificates, events=events)
        members.append(silo)
    return Silos(
        members=tuple(members),
        overlapping=overlapping,
        stated_by=None if overlapping else stated_by or NOBODY,
    )


def _check_of_one_round(
    releases: Sequence[Release], after: Release | None
) -> SecureSum | None:
    """Checks that releases are of different silos, and of one round; returns the secure sum that they are shares of."""
    _check_silos(releases)
    first = releases[0].certificate
    for release in releases[1:]:
        _check_same_plan(first, release.certificate)
    _check_plan(first, releases[0])
    _check_round(releases, after)
    shared = check_shares(releases)
    shapes = [
        {name: values.shape for name, values in release.values.items()}
        for release in releases
    ]
    for release, shape in zip(releases, shapes, strict=True):
        if shape != shapes[0]:
            raise ModelError(
                f"silo {_silo(release)!r} answered other questions than {_silo(releases[0])!r}."
            )
    return shared


def _silo(release: Release) -> str:
    certificate = release.certificate
    if certificate.silos is not None:
        raise OptionError(
            "a release is merged already; give the releases of the silos, each once."
        )
    name = certificate.public.get("silo")
    if not isinstance(name, str) or not isinstance(certificate.public.get("plan"), str):
        raise OptionError(
            "a release names no silo and no plan: `noisegate release` makes those that can be merged."
        )
    return name


def _budget_of(certificate: Certificate) -> Budget:
    first = certificate if certificate.silos is None else certificate.silos.members[0]
    guarantee = {
        name: getattr(certificate, name)
        for name in ("adjacency", "unit", "contributions")
    }
    return Budget(epsilon=first.epsilon, delta=first.delta, **guarantee)


def _check_silos(releases: Sequence[Release]) -> None:
    if len(releases) < 2:
        raise OptionError(
            f"releases: {len(releases)} given; give those of two silos or more."
        )
    seen: dict[str, str] = {}
    for release in releases:
        name, digest = _silo(release), release.certificate.digest()
        if name in seen:
            again = "the same release" if seen[name] == digest else "two releases"
            raise OptionError(
                f"silo {name!r} is there twice, with {again}: its records would count twice. Give one."
            )
        seen[name] = digest


def _check_round(releases: Sequence[Release], after: Release | None) -> None:
    """Checks that all silos went on from the merged release that is given, and that it is of the same silos."""
    expected = None if after is None else after.certificate.digest()
    for release in releases:
        stated, silo = release.certificate.public.get("after"), _silo(release)
        if stated == expected:
            continue
        if stated is None:
            cure = "leave the option out, or give its answers to the next."
            raise OptionError(f"after: silo {silo!r} answered the first round; {cure}")
        given = (
            "none is given" if expected is None else f"what is given is {expected[:16]}"
        )
        says = f"after: silo {silo!r} went on from the merged release {str(stated)[:16]}, and {given}"
        raise OptionError(
            f"{says}. Give the folder that `noisegate merge` made of the round before."
        )
    if after is None or after.certificate.silos is None:
        return
    before, now = (
        {silo.name for silo in after.certificate.silos.members},
        set(map(_silo, releases)),
    )
    if before != now:
        raise OptionError(
            f"after: the round before is of the silos {', '.join(sorted(before))}, this one of "
            f"{', '.join(sorted(now))}. All must answer both, or their sums would be of different records."
        )


def _check_same_plan(first: Certificate, other: Certificate) -> None:
    if first.public["plan"] == other.public["plan"]:
        return
    mine, theirs = first.public.get("settings", {}), other.public.get("settings", {})
    facts = {
        "method": (first.method, other.method),
        "adjacency": (first.adjacency.value, other.adjacency.value),
        "unit": (first.unit, other.unit),
        "contributions": (first.contributions, other.contributions),
        **{name: (mine.get(name), theirs.get(name)) for name in {**mine, **theirs}},
    }
    told = f"silos {first.public['silo']!r} and {other.public['silo']!r} asked by different plans, "
    told += f"{first.public['plan'][:16]} and {other.public['plan'][:16]}"
    if canonical_json(first.public["schema"]) != canonical_json(other.public["schema"]):
        raise OptionError(
            f"{told}: their schemas differ. Give all silos one published plan, which holds the schema."
        )
    differ = [
        f"{name} is {one!r} and {two!r}"
        for name, (one, two) in facts.items()
        if one != two
    ]
    why = "; ".join(differ) or "they ask different questions"
    raise OptionError(f"{told}: {why}. Release again under one published plan.")


def _check_plan(certificate: Certificate, release: Release) -> None:
    method, schema = method_of(certificate), release.schema
    found = plan_id(method, schema, plan_of(method, schema, _budget_of(certificate)))
    if found != certificate.public["plan"]:
        raise ModelError(
            f"silo {certificate.public['silo']!r} states the plan {certificate.public['plan'][:16]}, and its settings "
            f"are those of {found[:16]}: do not rely on it. If it was released by another version, which is "
            f"{certificate.version}, merge with that one."
        )
