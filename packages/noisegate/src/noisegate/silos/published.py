"""The published plan: what every silo asks, and its identifier, which changes with anything that is asked.

Noise is no part of the identifier: a silo may ask for another ε. Settings that follow from ε are written out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from noisegate.atomic import new_file
from noisegate.errors import ModelError, OptionError, said
from noisegate.methods.method import Method
from noisegate.methods.registry import method_named
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget, CalibratedPlan
from noisegate.privacy.release import read_json
from noisegate.privacy.silos import Silos
from noisegate.runs.folder import Run
from noisegate.schema import Schema

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
        raise OptionError(
            "the schema was bought from the records of one silo, and its cost is in no certificate of the others; give "
            "all silos a schema of public knowledge."
        )
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
        "queries": [{name: getattr(release.query, name) for name in names} for release in plan.releases],
    }
    return hashlib.sha256(canonical_json(asked)).hexdigest()


def noise_of(plan: CalibratedPlan) -> dict[str, float]:
    """Returns the noise of one silo on the answer to each query, in the units of the answers."""
    return {release.query.name: release.noise_std_natural for release in plan.releases}


def merged_noise(method: Method, schema: Schema, silos: Silos, budget: Budget) -> dict[str, float]:
    """Returns the noise of all silos together on each query, asked or still to be asked: variances add up."""
    plans = [plan_of(method, schema, replace(budget, epsilon=silo.epsilon, delta=silo.delta)) for silo in silos.members]
    if silos.colluding is not None:  # each has a share, of which some suffice
        inflated = (len(plans) / (len(plans) - silos.colluding)) ** 0.5
        return {name: std * inflated for name, std in noise_of(plans[0].summed()).items()}
    noise = [noise_of(plan) for plan in plans]
    return {name: sum(one[name] ** 2 for one in noise) ** 0.5 for name in noise[0]}


def write_plan(run: Run, out: Path) -> str:
    """Writes the plan of a run, which is `settled`, for all silos; returns its identifier."""
    plan = plan_of(run.method, run.table, run.budget)
    content = {
        "format": FORMAT,
        "plan": plan_id(run.method, run.table, plan),
        "method": run.method.name,
        "settings": run.method.to_json(),
        "schema": run.schema.to_json(),
        **{name: getattr(run, name) for name in _ASKED},
        "noise": noise_of(plan),
    }
    with new_file(out, "save") as beside:
        beside.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return str(content["plan"])


def read_plan(path: Path, **changes: Any) -> Run:
    """Returns the run that a published plan, checked, describes, with what is a silo's own from `changes`."""
    try:
        content: Mapping[str, Any] = read_json(path)
        if content["format"] != FORMAT:
            raise ModelError(f"{path} is of format {content['format']!r}; this version reads {FORMAT}.")
        asked = {name: content[name] for name in _ASKED}
        method = method_named(content["method"]).from_json(content["settings"])
        schema = Schema.from_json(content["schema"])
        told = {"method": method, "schema": schema, "records": None, "dataset": None, "ledger": None, **asked}
        plan = plan_of(method, schema, Run(**told).budget)
        stated, noise = content["plan"], {name: float(std) for name, std in content["noise"].items()}
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist; `noisegate plan --save` writes it.") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{path} is no published plan: {type(error).__name__} at {error}.") from None
    found = plan_id(method, schema, plan)
    if stated != found:
        raise ModelError(
            f"{path} states the plan {str(stated)[:16]}, and what stands in it is the plan {found[:16]}: it was "
            "changed, or written by another version. Get it anew from whoever published it."
        )
    _check_price(path, plan, noise)
    return settled(Run(**{**told, **changes}))


def _check_price(path: Path, plan: CalibratedPlan, noise: Mapping[str, float]) -> None:
    """Checks that a file's ε is that of the noise beside it, up to how the last digits were computed."""
    own = noise_of(plan)
    if set(noise) != set(own) or any(abs(std - noise[name]) > 1e-9 * std for name, std in own.items()):
        raise ModelError(
            f"{path} states epsilon={plan.budget.epsilon:g} at delta={plan.budget.delta:g}, and its noise is that "
            "of another price: it was changed. Get it anew from whoever published it; a silo that is to pay another "
            f"price gives it as {said('epsilon')}."
        )


def publish(run: Run, out: Path) -> tuple[Method, str]:
    """Writes the plan that all silos follow; returns its method, with every setting, and its identifier."""
    run = settled(run)
    return run.method, write_plan(run, out)
