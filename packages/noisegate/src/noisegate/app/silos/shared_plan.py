"""The plan that several silos share: published as a file, followed by each of them.

::

    publish_plan ──► plan.json ──► read_plan, in every silo ──► one run of the plan

The file has what is asked, of whom, and at what noise::

    format, plan             version of the file, and identifier of the plan
    method, settings         with every setting that would follow from ε written out
    schema                   in full
    epsilon … contributions  the budget, as fields of `Run`
    noise                    standard deviation on each query, to find tampering

The identifier is a hash of all that is asked. Noise is no part of it, so a silo may pay
another ε and still ask the same; that is why settings must not follow from ε.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from noisegate.app.runs.folder import Run
from noisegate.atomic import new_file
from noisegate.errors import ModelError, OptionError, said
from noisegate.methods.abilities import in_rounds, refusal_of_rounds
from noisegate.methods.method import Method
from noisegate.methods.registry import method_named
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import read_json
from noisegate.privacy.silos import Silos
from noisegate.schema import Schema

FORMAT = 1
"""Version of the file."""
_BUDGET_FIELDS = (
    "epsilon",
    "delta",
    "adjacency",
    "unit",
    "unit_column",
    "contributions",
)
_QUERY_FIELDS = ("name", "dim", "columns", "norm", "nonnegative", "centre", "adaptive")
"""What the identifier says of a query; all but its noise."""
# How far noise that is stated may be from noise that is computed: processors differ in
# the last digits.
_NOISE_TOLERANCE = 1e-9


def settle_run(run: Run) -> Run:
    """Writes out every setting that follows from ε, so that all silos ask the same.

    Raises:
        OptionError: if several silos cannot share the run: its neighbours have a record
            replaced, its schema was estimated from one silo's records, or its method
            does not ask for sums in rounds.
    """
    if run.adjacency != Adjacency.ADD_REMOVE.value:
        raise OptionError(
            f"adjacency={run.adjacency!r}: silos cannot state together which "
            "record was replaced; use 'add-remove'."
        )
    if run.discovery is not None:
        raise OptionError(
            "the schema was estimated from records of one silo, and its cost is in no "
            "certificate of the others; give all silos a schema of public knowledge."
        )
    schema = run.table.usable()
    method = in_rounds(run.method).settled(schema, run.epsilon)
    assert isinstance(method, Method)
    settled_run = replace(run, schema=schema, method=method)
    plan = calibrated_plan(method, settled_run.table, settled_run.budget)
    # Raises for records that the method does not take.
    in_rounds(method).next_round(settled_run.table, plan, {}, noise_by_query(plan))
    return settled_run


def calibrated_plan(method: Method, schema: Schema, budget: Budget) -> Plan:
    """Returns the plan of a method that asks for sums alone.

    Raises:
        OptionError: if the method asks for anything else.
    """
    plan = method.plan(schema, budget)
    if not plan.has_only_sums:
        raise refusal_of_rounds(method)
    return plan


def plan_id(method: Method, schema: Schema, plan: Plan) -> str:
    """Returns the identifier of a plan: the SHA-256, in hexadecimal, of what is asked.

    It changes with the method, its settings, the schema, the neighbours, the unit and
    the queries; not with ε, δ or the noise.
    """
    budget = plan.budget
    content = {
        "method": method.name,
        "public": method.public_facts(schema),
        "schema": schema.to_json(),
        "adjacency": budget.adjacency.value,
        "unit": budget.unit,
        "contributions": budget.contributions,
        "queries": [
            {name: getattr(release.query, name) for name in _QUERY_FIELDS}
            for release in plan.releases
        ],
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()


def noise_by_query(plan: Plan) -> dict[str, float]:
    """Returns the standard deviation of one silo's noise on the answer to each query.

    In the units of the answers, not of the grid.
    """
    return {release.query.name: release.noise_std_natural for release in plan.releases}


def merged_noise(
    method: Method, schema: Schema, silos: Silos, budget: Budget
) -> dict[str, float]:
    """Returns the standard deviation of the noise of all silos together.

    Variances of independent noise add up. Under masks each silo has a share of one
    noise, of which the shares of those that do not collude suffice: all shares together
    are √(silos / honest silos) times it.

    Args:
        method: The method that all follow.
        schema: Their schema.
        silos: Has the ε and δ of each.
        budget: Neighbours and unit; its ε and δ are replaced by those of each silo.

    Returns:
        The noise on each query, whether it was asked or is still to be asked.
    """
    plans = [
        calibrated_plan(
            method, schema, replace(budget, epsilon=silo.epsilon, delta=silo.delta)
        )
        for silo in silos.members
    ]
    if silos.colluding is not None:
        silo_count = len(plans)
        inflation = (silo_count / (silo_count - silos.colluding)) ** 0.5
        shared_noise = noise_by_query(plans[0].with_shared_noise())
        return {query: std * inflation for query, std in shared_noise.items()}
    noise_of_silos = [noise_by_query(plan) for plan in plans]
    return {
        query: sum(noise[query] ** 2 for noise in noise_of_silos) ** 0.5
        for query in noise_of_silos[0]
    }


def publish_plan(run: Run, out: Path) -> tuple[Method, str]:
    """Writes the plan that all silos follow to a new file.

    Returns:
        Its method, with every setting; and the identifier of the plan.

    Raises:
        OptionError: if silos cannot share the run, see `settle_run`.
    """
    settled_run = settle_run(run)
    return settled_run.method, write_plan(settled_run, out)


def write_plan(run: Run, out: Path, **more_fields: Any) -> str:
    """Writes the plan of a run to a new file; returns its identifier.

    Args:
        run: Settled (`settle_run`), where several silos share it.
        out: The file.
        more_fields: Further fields of the file, such as those of a stream.
    """
    plan = calibrated_plan(run.method, run.table, run.budget)
    identifier = plan_id(run.method, run.table, plan)
    content = {
        "format": FORMAT,
        "plan": identifier,
        "method": run.method.name,
        "settings": run.method.to_json(),
        "schema": run.schema.to_json(),
        **{name: getattr(run, name) for name in _BUDGET_FIELDS},
        "noise": noise_by_query(plan),
        **more_fields,
    }
    with new_file(out, "save") as new_path:
        text = json.dumps(content, indent=2, ensure_ascii=False)
        new_path.write_text(text + "\n", encoding="utf-8")
    return identifier


@dataclass(frozen=True, kw_only=True)
class _PublishedPlan:
    """A plan as its file states it.

    Attributes:
        run: What is asked; without dataset and ledger, which are each silo's own.
        identifier: The identifier that the file states.
        noise: The noise that it states for each query.
    """

    run: Run
    identifier: str
    noise: Mapping[str, float]


def read_plan(path: Path, *, settle: bool = True, **changes: Any) -> Run:
    """Reads a published plan, and checks that it was not changed.

    Args:
        path: The file that `write_plan` wrote.
        settle: Whether silos are to share it; not for a stream.
        changes: What is this silo's own, as fields of `Run`: dataset and ledger, or
            another ε and δ.

    Returns:
        A run of the plan.

    Raises:
        ModelError: if the file is no plan, or was changed.
    """
    published = _parse_plan(path)
    run = published.run
    plan = calibrated_plan(run.method, run.schema, run.budget)
    identifier = plan_id(run.method, run.schema, plan)
    if published.identifier != identifier:
        raise ModelError(
            f"{path} states the plan {str(published.identifier)[:16]}, and its "
            f"contents are those of the plan {identifier[:16]}: it was changed, or "
            "written by another version. Get it again from whoever published it."
        )
    if not _is_same_noise(published.noise, noise_by_query(plan)):
        raise ModelError(
            f"{path} states epsilon={plan.budget.epsilon:g} at "
            f"delta={plan.budget.delta:g}, and its noise does not match: it was "
            "changed. Get it again from whoever published it; a silo that wants "
            f"another ε gives it as {said('epsilon')}."
        )
    own_run = replace(run, **changes)
    return settle_run(own_run) if settle else own_run


def _parse_plan(path: Path) -> _PublishedPlan:
    """Reads the fields of a published plan; checks their form alone."""
    try:
        content: Mapping[str, Any] = read_json(path)
        if content["format"] != FORMAT:
            raise ModelError(
                f"{path} is of format {content['format']!r}; this version reads "
                f"{FORMAT}."
            )
        budget_fields = {name: content[name] for name in _BUDGET_FIELDS}
        run = Run(
            method=method_named(content["method"]).from_json(content["settings"]),
            schema=Schema.from_json(content["schema"]),
            **budget_fields,
        )
        # Raises for values that no plan can have.
        calibrated_plan(run.method, run.schema, run.budget)
        return _PublishedPlan(
            run=run,
            identifier=content["plan"],
            noise={name: float(std) for name, std in content["noise"].items()},
        )
    except FileNotFoundError:
        raise ModelError(
            f"{path} does not exist; `noisegate plan --save` writes it."
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{path} is not a published plan: {type(error).__name__} at {error}."
        ) from None


def _is_same_noise(stated: Mapping[str, float], computed: Mapping[str, float]) -> bool:
    """Tells whether noise is as stated, on the same queries, but for last digits."""
    return stated.keys() == computed.keys() and all(
        math.isclose(stated[query], std, rel_tol=0.0, abs_tol=_NOISE_TOLERANCE * std)
        for query, std in computed.items()
    )
