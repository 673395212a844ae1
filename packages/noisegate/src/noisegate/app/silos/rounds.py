"""What one silo releases: one round of a published plan; what all have answered says what all ask next.

A plan's identifier changes with anything that is asked. Noise is no part of it: a silo
may ask for another ε. Settings that follow from ε are written out.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from noisegate.app.runs.folder import Observer, Run, RunFolder
from noisegate.app.runs.work import release_run
from noisegate.atomic import new_file
from noisegate.errors import ModelError, OptionError, said
from noisegate.gate.gate import Gate
from noisegate.gate.silos.keys import SiloKey, facts_of, silo_key
from noisegate.gate.silos.session import ShareSession
from noisegate.ledger.ledger import Ledger
from noisegate.methods.method import Method
from noisegate.methods.registry import AUTO, method_named
from noisegate.models.folder import verify_release
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.events import RECORD, Adjacency
from noisegate.privacy.plan import Budget, CalibratedPlan
from noisegate.privacy.release import Release, read_json
from noisegate.privacy.silos import Silos
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Schema


@dataclass(frozen=True)
class Round:
    """One round of one silo; ask it at a gate."""

    run: Run
    silo: str
    after: Release | None = None
    secure: SiloKey | None = None

    def __call__(self, gate: Gate, plan: Any, /) -> Release:
        """Returns the answers of this round, with a certificate that names plan, silo and round."""
        method, schema = self.run.method, gate.schema
        maps = self.maps(schema, plan)
        part, facts, masking = plan.restricted_to(maps), self.facts(schema, plan), None
        if self.secure is not None:
            part = part.with_shared_noise()
            masking = self.secure.masking(
                part, plan=facts["plan"], after=facts.get("after")
            )
            facts |= {"secure_sum": facts_of(masking.sum)}
        opened = gate.open(part, method=method.name, public=facts)
        with opened if masking is None else ShareSession(opened, masking) as session:
            session.ask(maps)
        return session.release()

    def maps(self, schema: Schema, plan: CalibratedPlan) -> Mapping[str, FeatureMap]:
        """Returns what is asked in this round, which follows from what is public."""
        method, after = self.run.method, self.after
        if after is None:
            return method.next_round(schema, plan, {}, noise_of(plan))
        silos = after.certificate.silos
        assert silos is not None
        return method.next_round(
            schema, plan, after.values, merged_noise(method, schema, silos, plan.budget)
        )

    def facts(self, schema: Schema, plan: CalibratedPlan) -> dict[str, Any]:
        """Returns what is public of this round, for its certificate."""
        method = self.run.method
        facts = {
            **method.public_facts(schema),
            "plan": plan_id(method, schema, plan),
            "silo": self.silo,
        }
        return (
            facts
            if self.after is None
            else facts | {"after": self.after.certificate.digest()}
        )


def round_of(
    run: Run, silo: str, after: Release | None = None, secure: SiloKey | None = None
) -> Round:
    """Returns the round that a silo is to answer after those merged before; with `secure` by a masked share."""
    if not isinstance(silo, str) or not silo.strip() or not silo.isprintable():
        raise OptionError(
            f"silo={silo!r} must be the name of this silo in one line, such as 'north'."
        )
    run, silo = settled(run), silo.strip()
    schema, plan = run.table, run.method.plan(run.table, run.budget)
    assert isinstance(plan, CalibratedPlan)
    if after is not None:
        _check_after(run, silo, after, plan_id(run.method, schema, plan), secure)
    if secure is not None and secure.silo != silo:
        raise OptionError(
            f"silo={silo!r}: the key is of the silo {secure.silo!r}; give its own."
        )
    found = Round(run, silo, after, secure)
    if not found.maps(schema, plan):
        raise OptionError(
            "after: every round of this plan is answered in it; there is nothing more to release."
        )
    return found


def _check_after(
    run: Run, silo: str, after: Release, identity: str, secure: SiloKey | None
) -> None:
    silos, stated = after.certificate.silos, after.certificate.public.get("plan")
    if silos is None or stated != identity:
        says = f"after: its plan is {str(stated)[:16]}, and this silo asks by the plan {identity[:16]}"
        raise OptionError(
            f"{says}; give what `noisegate merge` made of the first round of this plan."
        )
    own = [one for one in silos.members if one.name == silo]
    if not own:
        names = ", ".join(one.name for one in silos.members)
        raise OptionError(
            f"silo={silo!r} has no part in the round before, which is of {names}; give its name."
        )
    if (own[0].epsilon, own[0].delta) != (run.budget.epsilon, run.budget.delta):
        why = f"{silo!r} began with {own[0].epsilon:g} at {own[0].delta:g} for all rounds together; go on with these."
        raise OptionError(f"epsilon={run.epsilon:g} at delta={run.delta:g}: {why}")
    if silos.colluding != (None if secure is None else secure.colluding):
        before = (
            "no secure sum"
            if silos.colluding is None
            else f"a secure sum with colluding={silos.colluding}"
        )
        cure = "go on as it began, or noise would not be what it says."
        raise OptionError(f"after: the round before was {before}; {cure}")


def release(
    data: Any,
    *,
    silo: str,
    plan: str | Path | None = None,
    after: Release | str | Path | None = None,
    out: str | Path | None = None,
    schema: Schema | str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    method: str | Method = AUTO,
    unit: str = RECORD,
    unit_column: str | None = None,
    contributions: int | None = None,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    secure_sum: str | Path | None = None,
    key: str | Path | None = None,
    colluding: int = 1,
    observer: Observer | None = None,
    **settings: Any,
) -> Release:
    """Returns what one silo releases under a plan that several share, with nothing fitted to it; see `merge`.

    The ``silo`` has this name in its certificate. The ``plan`` is the published one, as `noisegate plan --save` writes
    it; without it ``schema``, ``method`` and its settings are given. Where the method asks in rounds, ``epsilon`` and
    ``delta``, which may differ from those of the plan, are of all rounds together, and ``after`` is the merged release
    of the rounds before this one. ``out`` is a folder to make; None keeps the release in memory only. What is not named
    here is as for `fit`. With ``secure_sum``, a folder with the public key of every silo, as `noisegate key` makes
    them, and ``key``, the private one of this silo, a masked share of sums is released, of which nobody sees this
    silo's part; so many ``colluding`` silos may tell what they know to whoever merges.

    Raises:
        UserError: if anything given is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, release
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema([Boolean(name="ill"), Integer(name="age", lower=0, upper=99)])
        >>> table = pa.table({"ill": [True, False] * 100, "age": [31, 58] * 100})
        >>> north = release(table, silo="north", schema=schema, epsilon=1.0)
        >>> north.certificate.public["silo"], sorted(north.values)
        ('north', ['coarse', 'fine'])
    """
    price = {"epsilon": epsilon, "delta": delta}
    noise: dict[str, Any] = {
        name: value for name, value in price.items() if value is not None
    }
    booked: dict[str, Any] = {"dataset": dataset, "ledger": ledger}
    told: dict[str, Any]
    if plan is not None:
        told = {
            "schema": schema,
            "unit_column": unit_column,
            "contributions": contributions,
            **settings,
        }
        twice = next(
            (f"{name}={value!r}" for name, value in told.items() if value is not None),
            None,
        )
        if twice or method != AUTO or unit != RECORD:
            raise OptionError(
                f"{twice or f'method={method!r}, unit={unit!r}'}: the published plan says what is queried."
            )
        run = read_plan(Path(plan), **noise, **booked)
    elif schema is None or epsilon is None:
        raise OptionError(
            "schema and epsilon are missing: give them, or the published plan."
        )
    else:
        told = {
            "unit": unit,
            "unit_column": unit_column,
            "contributions": contributions,
            "records": None,
        }
        told |= {
            "adjacency": Adjacency.ADD_REMOVE,
            "settings": settings,
            "delta": 1e-5,
            **noise,
            **booked,
        }
        run = Run.of(method=method, schema=schema, **told)
    earlier = (
        after
        if after is None or isinstance(after, Release)
        else read_release(Path(after))
    )
    place = None if out is None else Path(out)
    secure = silo_key(secure_sum, key, colluding)
    return release_in(
        RunFolder(place, observer=observer), round_of(run, silo, earlier, secure), data
    )


def release_in(folder: RunFolder, asked: Round, data: Any, **options: Any) -> Release:
    """Returns the answers to a round, which are written to the `out` of a folder, if it has one."""
    found = release_run(asked.run, data, folder, asked, **options)
    if folder.out is not None:
        folder.hand_out()
    else:
        folder.remove()
    return found


def read_release(folder: Path) -> Release:
    """Returns the release in a folder, with its hashes and its claim checked."""
    verify_release(folder)
    return Release.load(folder)


FORMAT = 1
_ASKED = ("epsilon", "delta", "adjacency", "unit", "unit_column", "contributions")


def settled(run: Run) -> Run:
    """Returns a run as several silos can share it, if they can: with every setting that follows from ε written out."""
    if run.adjacency != Adjacency.ADD_REMOVE.value:
        raise OptionError(
            f"adjacency={run.adjacency!r}: whose records were replaced, and in which silo, is nothing that silos could "
            "state together; take 'add-remove'."
        )
    if run.discovery is not None:
        says = "the schema was estimated from records of one silo, and its cost is in no certificate of the others"
        raise OptionError(f"{says}; give all silos a schema of public knowledge.")
    schema = run.table.usable()
    run = replace(run, schema=schema, method=run.method.settled(schema, run.epsilon))
    plan = plan_of(run.method, run.table, run.budget)
    run.method.next_round(run.table, plan, {}, noise_of(plan))
    return run


def plan_of(method: Method, schema: Schema, budget: Budget) -> CalibratedPlan:
    """Returns the plan of one silo; refuses a method that does not ask for sums alone."""
    plan = method.plan(schema, budget)
    if not isinstance(plan, CalibratedPlan):
        Method.next_round(method, schema, plan, {}, {})  # says why not
    assert isinstance(plan, CalibratedPlan)
    return plan


def plan_id(method: Method, schema: Schema, plan: CalibratedPlan) -> str:
    """Returns the SHA-256 of everything that is asked: method, settings, schema, neighbours, unit and queries."""
    budget = plan.budget
    names = ("name", "dim", "columns", "norm", "nonnegative", "centre", "adaptive")
    asked = {
        "method": method.name,
        "public": method.public_facts(schema),
        "schema": schema.to_json(),
        "adjacency": budget.adjacency.value,
        "unit": budget.unit,
        "contributions": budget.contributions,
        "queries": [
            {name: getattr(release.query, name) for name in names}
            for release in plan.releases
        ],
    }
    return hashlib.sha256(canonical_json(asked)).hexdigest()


def noise_of(plan: CalibratedPlan) -> dict[str, float]:
    """Returns the noise of one silo on the answer to each query, in the units of the answers."""
    return {release.query.name: release.noise_std_natural for release in plan.releases}


def merged_noise(
    method: Method, schema: Schema, silos: Silos, budget: Budget
) -> dict[str, float]:
    """Returns the noise of all silos together on each query, asked or still to be asked: variances add up."""
    plans = [
        plan_of(method, schema, replace(budget, epsilon=silo.epsilon, delta=silo.delta))
        for silo in silos.members
    ]
    if silos.colluding is not None:  # each has a share, of which some suffice
        inflated = (len(plans) / (len(plans) - silos.colluding)) ** 0.5
        return {
            name: std * inflated
            for name, std in noise_of(plans[0].with_shared_noise()).items()
        }
    noise = [noise_of(plan) for plan in plans]
    return {name: sum(one[name] ** 2 for one in noise) ** 0.5 for name in noise[0]}


def write_plan(run: Run, out: Path, **more: Any) -> str:
    """Writes the plan of a run, which is `settled` for several silos; returns its identifier."""
    plan = plan_of(run.method, run.table, run.budget)
    content = {
        "format": FORMAT,
        "plan": plan_id(run.method, run.table, plan),
        "method": run.method.name,
        "settings": run.method.to_json(),
        "schema": run.schema.to_json(),
        **{name: getattr(run, name) for name in _ASKED},
        "noise": noise_of(plan),
        **more,
    }
    with new_file(out, "save") as beside:
        beside.write_text(
            json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return str(content["plan"])


def read_plan(path: Path, *, settle: bool = True, **changes: Any) -> Run:
    """Returns the run that a published plan, checked, describes, with what is a silo's own from `changes`."""
    try:
        content: Mapping[str, Any] = read_json(path)
        if content["format"] != FORMAT:
            raise ModelError(
                f"{path} is of format {content['format']!r}; this version reads {FORMAT}."
            )
        asked = {name: content[name] for name in _ASKED}
        method = method_named(content["method"]).from_json(content["settings"])
        schema = Schema.from_json(content["schema"])
        told = {
            "method": method,
            "schema": schema,
            "records": None,
            "dataset": None,
            "ledger": None,
            **asked,
        }
        plan = plan_of(method, schema, Run(**told).budget)
        stated, noise = (
            content["plan"],
            {name: float(std) for name, std in content["noise"].items()},
        )
    except FileNotFoundError:
        raise ModelError(
            f"{path} does not exist; `noisegate plan --save` writes it."
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{path} is not a published plan: {type(error).__name__} at {error}."
        ) from None
    found = plan_id(method, schema, plan)
    if stated != found:
        raise ModelError(
            f"{path} states the plan {str(stated)[:16]}, and what stands in it is the plan {found[:16]}: it was "
            "changed, or written by another version. Get it anew from whoever published it."
        )
    # Up to how the last digits were computed.
    own = noise_of(plan)
    if set(noise) != set(own) or any(
        abs(std - noise[name]) > 1e-9 * std for name, std in own.items()
    ):
        raise ModelError(
            f"{path} states epsilon={plan.budget.epsilon:g} at delta={plan.budget.delta:g}, and its noise is that "
            "of another price: it was changed. Get it anew from whoever published it; a silo that is to pay another "
            f"price gives it as {said('epsilon')}."
        )
    run = Run(**{**told, **changes})
    return settled(run) if settle else run


def publish(run: Run, out: Path) -> tuple[Method, str]:
    """Writes the plan that all silos follow; returns its method, with every setting, and its identifier."""
    run = settled(run)
    return run.method, write_plan(run, out)
