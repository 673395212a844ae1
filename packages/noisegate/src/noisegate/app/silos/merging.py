"""Adds up the releases of several silos, and fits one model to the sum.

Merging reads no record and spends nothing: it is post-processing of releases, so anyone
who has them can do it (G-30)::

    release of north ──┐ the same    values are added up
    release of south ──┼ plan and ──► variances of noise are added up ──► model
    release of west  ──┘ round       the certificate names the silos

Releases are added up and not averaged: an average would give the records of small silos
more weight. If a round of the plan remains, the sum is a release from which all silos
derive their next queries, and not yet a model. Shares of a secure sum are added up
while they are masked (`gate.silos.keys`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from noisegate.app.runs.folder import Observer, RunFolder
from noisegate.app.runs.work import fit_run
from noisegate.app.silos.rounds import read_release
from noisegate.app.silos.shared_plan import calibrated_plan, merged_noise, plan_id
from noisegate.errors import ModelError, OptionError
from noisegate.gate.silos.keys import SecureSum, check_shares, sum_shares
from noisegate.methods.abilities import in_rounds
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
# Public facts that are of one silo alone, or of one round.
_FACTS_OF_ONE_RELEASE = ("silo", "after", "records", "adaptive", "secure_sum")


def merge(
    releases: Sequence[Release | str | Path],
    *,
    after: Release | str | Path | None = None,
    overlapping: bool = False,
    stated_by: str | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    observer: Observer | None = None,
    log: str | Path | None = None,
) -> Release | FittedModel:
    """Adds up the releases of several silos, and fits one model to the sum.

    Reads no record and spends nothing.

    Args:
        releases: Releases of all silos, as `release` returns them, or their folders.
        after: Merged release of the previous rounds, if the method has several rounds.
        overlapping: Whether one unit may have records in several silos. If so, the
            costs of the silos add up; otherwise the largest of them counts.
        stated_by: Who states that no unit has records in several silos. The certificate
            names this party.
        out: Folder to create; None keeps the result in memory only.
        device: As for `fit`.
        observer: As for `fit`.
        log: As for `fit`.

    Returns:
        The model. After a round that is not the last: the merged release, which all
        silos need for the next round.

    Raises:
        UserError: if the releases are not of one plan and one round, a silo occurs
            twice, or a release was changed.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, merge, release
        >>> from noisegate.schema import Boolean
        >>> plan = {"schema": Schema([Boolean(name="ill")]), "epsilon": 1.0}
        >>> northern_patients = pa.table({"ill": [True, False] * 100})
        >>> southern_patients = pa.table({"ill": [True, True] * 100})
        >>> north = release(northern_patients, silo="north", **plan)
        >>> south = release(southern_patients, silo="south", **plan)
        >>> model = merge([north, south], stated_by="the registry")
        >>> model.certificate.epsilon, len(model.certificate.silos.members)
        (1.0, 2)
    """
    before = None if after is None else _as_release(after)
    merged = add_up(
        [_as_release(release) for release in releases],
        after=before,
        overlapping=overlapping,
        stated_by=stated_by,
    )
    folder = RunFolder(out, observer=observer, log=log)
    if not _has_round_left(merged):
        return fit_run(merged, folder, device=device)
    if folder.out is not None:
        value_count = sum(values.size for values in merged.values.values())
        with folder.logged(), folder.prepared(value_count):
            folder.keep(merged)
            folder.record(f"The sums of {len(releases)} silos are added up.")
        folder.hand_out()
    return merged


def _as_release(source: Release | str | Path) -> Release:
    """Returns a release, which is read from a folder if it is not in memory."""
    if isinstance(source, Release):
        return source
    return read_release(Path(source))


def _has_round_left(merged: Release) -> bool:
    """Returns whether the method has another round after a merged release.

    The method decides by the plan, the sums and the noise in them. So all silos agree
    on the next round without exchanging messages
    (`test_the_second_round_follows_from_the_merged_first_one_in_all_silos_alike`).
    """
    certificate = merged.certificate
    assert certificate.silos is not None
    method = method_of(certificate)
    budget = _budget_of(certificate)
    plan = calibrated_plan(method, merged.schema, budget)
    noise = merged_noise(method, merged.schema, certificate.silos, budget)
    return bool(in_rounds(method).next_round(merged.schema, plan, merged.values, noise))


def add_up(
    releases: Sequence[Release],
    *,
    after: Release | None = None,
    overlapping: bool = False,
    stated_by: str | None = None,
) -> Release:
    """Adds up the releases of one round, and joins them with the rounds before.

    Example: a query of two silos with noise of their own, and the same query with
    shares of a secure sum, in integers modulo 2⁶⁴::

        north       south       merged
        40.3 ± 3    59.1 ± 4    99.4 ± 5     variances add up: 3² + 4² = 5²
        m + 161     -m + 236    397 units    the mask m cancels; 397 / 4 = 99.25 on a
                                             grid of quarters

    All is checked before anything is added. No argument is changed, and the same
    releases in the same order give the same merged release and digest. In another
    order, sums of floats may differ in their last bits, and the silos are listed so.

    Args:
        releases: One of each silo.
        after: Merged release of the rounds before; None for the first.
        overlapping: Whether a unit may have records in several silos.
        stated_by: Who states that none has.

    Returns:
        The merged release, whose certificate names the silos.

    Raises:
        UserError: if the releases do not belong together.
    """
    secure_sum = _check_of_one_round(releases, after)
    # Copies, in which the queries of this round follow those of the rounds before.
    # Rounds ask different queries, so none is replaced.
    values: dict[str, Any] = {}
    noise_std: dict[str, float] = {}
    if after is not None:
        values.update(after.values)
        noise_std.update(after.noise_std)
    if secure_sum is None:
        values.update(_sum_answers(releases))
    else:
        values.update(_sum_masked_answers(releases))
    noise_std.update(_noise_of_sums(releases))

    silos = _state_silos(releases, after, overlapping, stated_by)
    if secure_sum is not None:
        # The largest sum of silos against which the claim holds is part of the claim.
        silos = replace(silos, colluding=secure_sum.colluding)
    hashes = array_hashes(release_arrays(values, noise_std))
    certificate = _merged_certificate(releases[0].certificate, after, silos, hashes)
    return Release(values=values, noise_std=noise_std, certificate=certificate)


def _sum_answers(releases: Sequence[Release]) -> dict[str, Any]:
    """Returns the sum of the silos' answers to each query, with the noise of all.

    Sums and not means: a mean would count the records of small silos more
    (`test_sums_and_variances_add_up`).
    """
    return {
        query: reduce(add, [release.values[query] for release in releases])
        for query in releases[0].values
    }


def _sum_masked_answers(releases: Sequence[Release]) -> dict[str, Any]:
    """Returns the sum of the silos' results for each query, from masked shares.

    The masks cancel exactly, but only in the sum of integers modulo 2⁶⁴. So the
    integers are added first, and the total is then converted from grid units to the
    units of the results (`test_the_sum_has_one_noise_and_more_for_those_who_collude`).

    Args:
        releases: The shares of all silos; with one missing, the total is random.
    """
    grids = _grids_by_query(releases[0])
    return {
        query: grids[query].restore(sum_shares(releases, query))
        for query in releases[0].values
    }


def _noise_of_sums(releases: Sequence[Release]) -> dict[str, float]:
    """Returns the standard deviation of the noise in the sum for each query.

    The noises are independent, so their variances add up; also those of shares, each
    of which states its own part of the noise.
    """
    return {
        query: sum(release.noise_std[query] ** 2 for release in releases) ** 0.5
        for query in releases[0].values
    }


def _grids_by_query(release: Release) -> dict[str, Grid]:
    """Returns the grid on which each query of a silo's plan was answered.

    A release does not hold it. It follows from the method, the schema and the budget in
    the certificate, by which the plan is made again; `_check_plan` has found that it is
    the plan that the silo states. All silos have the same.
    """
    certificate = release.certificate
    method = method_of(certificate)
    plan = calibrated_plan(method, release.schema, _budget_of(certificate))
    return {planned.query.name: planned.query.grid for planned in plan.releases}


def _merged_certificate(
    first: Certificate, after: Release | None, silos: Silos, hashes: Mapping[str, str]
) -> Certificate:
    """Writes the certificate of a merged release.

    It states the largest ε and δ of a silo, and its events. Where silos may overlap, ε
    is that of all silos' events together, if that is more. Example: of disjoint silos
    with ε = 1 and 0.5 it is 1 (`test_disjoint_silos_cost_the_largest_epsilon`).

    Whatever is public of one silo or round alone is left out of the public facts, and
    the number of records is unknown: it would have to be that of all silos.

    Args:
        first: Certificate of one of the silos in this round.
        after: Merged release of the rounds before.
        silos: What each silo has run in all rounds.
        hashes: Hashes of the merged values.
    """
    public = {
        name: fact
        for name, fact in first.public.items()
        if name not in _FACTS_OF_ONE_RELEASE
    }
    public["records"] = None
    rounds = [first] if after is None else [after.certificate, first]
    adaptive_queries = [
        query
        for certificate in rounds
        for query in certificate.public.get("adaptive", ())
    ]
    if adaptive_queries:
        public["adaptive"] = adaptive_queries

    adjacency = first.adjacency
    # What a silo claims at its own δ also holds at a larger one.
    delta = max(silo.delta for silo in silos.members)
    # Never less than a silo states, even where its events would give less at this δ.
    epsilon = max(silo.epsilon for silo in silos.members)
    if silos.overlapping:
        composed_events = silos.costliest_group(delta, adjacency)
        epsilon = max(epsilon, accounting.epsilon(composed_events, delta, adjacency))
    # Those of the silo that paid most, whether they overlap or not.
    events = replace(silos, overlapping=False).costliest_group(delta, adjacency)
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        events=events,
        adjacency=adjacency,
        unit=first.unit,
        contributions=first.contributions,
        method=first.method,
        public=public,
        hashes=hashes,
        silos=silos,
    )


def _state_silos(
    releases: Sequence[Release],
    after: Release | None,
    overlapping: bool,
    stated_by: str | None,
) -> Silos:
    """States what each silo has run, in this round and those before.

    Args:
        releases: One of each silo; the same silos as in `after`, see `_check_round`.
        after: Merged release of the rounds before; None for the first.
        overlapping: Whether a unit may have records in several silos.
        stated_by: Who states that none has; None if nobody is named.

    Raises:
        OptionError: if both options are given, which contradict each other.
    """
    if overlapping and stated_by is not None:
        raise OptionError(
            f"stated_by={stated_by!r} names who states that no unit has records in two "
            "silos; overlapping says that some may have. Leave one of them out."
        )
    members_before: dict[str, Silo] = {}
    if after is not None and after.certificate.silos is not None:
        members_before = {silo.name: silo for silo in after.certificate.silos.members}
    members = [
        _state_silo(release, members_before.get(_silo_name(release)))
        for release in releases
    ]
    if overlapping:
        return Silos(members=tuple(members), overlapping=True)
    return Silos(members=tuple(members), stated_by=stated_by or NOBODY)


def _state_silo(release: Release, before: Silo | None) -> Silo:
    """States what one silo has run: its release, after that of the rounds before.

    ε and δ are those of this release: all rounds are parts of one plan, so that its
    cost is stated in each (`test_both_rounds_of_a_silo_cost_what_one_fit_does`). The
    events are those of all rounds.
    """
    certificate = release.certificate
    certificates: tuple[str, ...] = (certificate.digest(),)
    events = certificate.events
    if before is not None:
        certificates = before.certificates + certificates
        events = before.events + events
    return Silo(
        name=_silo_name(release),
        certificates=certificates,
        epsilon=certificate.epsilon,
        delta=certificate.delta,
        events=events,
    )


def _silo_name(release: Release) -> str:
    """Returns the name of the silo that made a release.

    Raises:
        OptionError: if the release is merged, or was not made for merging.
    """
    certificate = release.certificate
    if certificate.silos is not None:
        raise OptionError(
            "a release is merged already; give the releases of the silos, each once."
        )
    name = certificate.public.get("silo")
    if not isinstance(name, str) or not isinstance(certificate.public.get("plan"), str):
        raise OptionError(
            "a release names no silo and no plan: `noisegate release` makes those that "
            "can be merged."
        )
    return name


def _budget_of(certificate: Certificate) -> Budget:
    """Returns the budget of a release's silo, or of the first silo of a merged release.

    Silos may have different costs, but their queries do not depend on the cost. So any
    of these budgets can recreate the plan.
    """
    payer = certificate if certificate.silos is None else certificate.silos.members[0]
    return Budget(
        epsilon=payer.epsilon,
        delta=payer.delta,
        adjacency=certificate.adjacency,
        unit=certificate.unit,
        contributions=certificate.contributions,
    )


# Whether releases belong together.


def _check_of_one_round(
    releases: Sequence[Release], after: Release | None
) -> SecureSum | None:
    """Requires that releases are of different silos, one plan and one round.

    The order is that of the errors, from the plainest to the oddest: a file given
    twice, other plans, a plan that was tampered with, other rounds, and only then
    shares that do not belong together. Each check relies on those before it.

    Returns:
        The secure sum that they are shares of; None where they have their own noise.

    Raises:
        UserError: if any of this is not so.
    """
    _check_silos(releases)
    first = releases[0]
    for release in releases[1:]:
        _check_same_plan(first.certificate, release.certificate)
    _check_plan(first)
    _check_round(releases, after)
    secure_sum = check_shares(releases)
    shapes = _shapes(first)
    for release in releases[1:]:
        if _shapes(release) != shapes:
            raise ModelError(
                f"silo {_silo_name(release)!r} answered different queries from "
                f"{_silo_name(first)!r}."
            )
    return secure_sum


def _shapes(release: Release) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each answer, by query."""
    return {query: values.shape for query, values in release.values.items()}


def _check_silos(releases: Sequence[Release]) -> None:
    """Requires the releases of at least two silos, one of each."""
    if len(releases) < 2:
        raise OptionError(
            f"releases: {len(releases)} given; give those of two silos or more."
        )
    digests: dict[str, str] = {}
    for release in releases:
        name = _silo_name(release)
        digest = release.certificate.digest()
        if name in digests:
            is_same_release = digests[name] == digest
            repeated = "the same release" if is_same_release else "two releases"
            raise OptionError(
                f"silo {name!r} appears twice, with {repeated}: its records would "
                "count twice. Give one."
            )
        digests[name] = digest


def _check_round(releases: Sequence[Release], after: Release | None) -> None:
    """Requires that all silos continued from a merged release, and that it is theirs.

    Args:
        releases: One of each silo.
        after: The merged release; None where all must have begun.
    """
    for release in releases:
        _check_after(release, after)
    if after is None or after.certificate.silos is None:
        return
    names_before = {silo.name for silo in after.certificate.silos.members}
    names = {_silo_name(release) for release in releases}
    if names_before != names:
        raise OptionError(
            "after: the round before is of the silos "
            f"{', '.join(sorted(names_before))}, this one of "
            f"{', '.join(sorted(names))}. All must answer both, or their sums would be "
            "of different records."
        )


def _check_after(release: Release, after: Release | None) -> None:
    """Requires that a silo continued from a merged release; began, if it is None."""
    stated_digest = release.certificate.public.get("after")
    digest = None if after is None else after.certificate.digest()
    if stated_digest == digest:
        return
    silo = _silo_name(release)
    if stated_digest is None:
        raise OptionError(
            f"after: silo {silo!r} answered the first round; leave the option out, or "
            "give its answers to the next."
        )
    if digest is None:
        difference = "none is given"
    else:
        difference = f"what is given is {digest[:16]}"
    raise OptionError(
        f"after: silo {silo!r} continued from the merged release "
        f"{str(stated_digest)[:16]}, and {difference}. Give the folder that "
        "`noisegate merge` made of the round before."
    )


def _check_same_plan(first: Certificate, other: Certificate) -> None:
    """Checks that two silos used the same plan; else states the differences."""
    if first.public["plan"] == other.public["plan"]:
        return
    problem = (
        f"silos {first.public['silo']!r} and {other.public['silo']!r} used "
        f"different plans, {first.public['plan'][:16]} and "
        f"{other.public['plan'][:16]}"
    )
    if canonical_json(first.public["schema"]) != canonical_json(other.public["schema"]):
        raise OptionError(
            f"{problem}: their schemas differ. Give all silos one published plan, "
            "which holds the schema."
        )
    first_facts = _compared_facts(first)
    other_facts = _compared_facts(other)
    differences = [
        f"{name} is {first_facts.get(name)!r} and {other_facts.get(name)!r}"
        for name in {**first_facts, **other_facts}
        if first_facts.get(name) != other_facts.get(name)
    ]
    listed = "; ".join(differences) or "they ask different questions"
    raise OptionError(f"{problem}: {listed}. Release again under one published plan.")


def _compared_facts(certificate: Certificate) -> dict[str, Any]:
    """Returns what is part of a plan's identifier beside the schema, by name."""
    return {
        "method": certificate.method,
        "adjacency": certificate.adjacency.value,
        "unit": certificate.unit,
        "contributions": certificate.contributions,
        **certificate.public.get("settings", {}),
    }


def _check_plan(release: Release) -> None:
    """Requires that the plan which a silo states is the one that its settings give.

    The first silo's is checked alone: the others state the same plan by then.
    """
    certificate = release.certificate
    method = method_of(certificate)
    schema = release.schema
    plan = calibrated_plan(method, schema, _budget_of(certificate))
    identifier = plan_id(method, schema, plan)
    stated = certificate.public["plan"]
    if identifier != stated:
        raise ModelError(
            f"silo {certificate.public['silo']!r} states the plan {stated[:16]}, and "
            f"its settings are those of {identifier[:16]}: do not rely on it. If it "
            f"was released by another version, which is {certificate.version}, merge "
            "with that one."
        )
