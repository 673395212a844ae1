"""What one silo releases: one round of the plan that several silos share.

::

    shared plan ──► Round ──► gate of each silo ──► its release
         merged release of the rounds before ──┘

The queries of a round depend on the plan and on the merged release of the previous
rounds, so all silos have the same queries. A silo releases results with its own noise;
or, in a secure sum, a masked share that nobody can read by itself (G-32).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisegate.app.request import Request
from noisegate.app.runs.folder import Observer, Run, RunFolder
from noisegate.app.runs.work import release_run
from noisegate.app.silos.shared_plan import (
    merged_noise,
    noise_by_query,
    plan_id,
    read_plan,
    settle_run,
)
from noisegate.errors import OptionError
from noisegate.gate.gate import Gate
from noisegate.gate.session import Session
from noisegate.gate.silos.keys import SiloKey, read_silo_key, secure_sum_to_json
from noisegate.gate.silos.session import open_share
from noisegate.ledger.ledger import Ledger
from noisegate.methods.abilities import in_rounds
from noisegate.methods.method import Method
from noisegate.methods.registry import AUTO
from noisegate.models.folder import verify_release
from noisegate.privacy.events import RECORD
from noisegate.privacy.plan import Plan
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Schema


@dataclass(frozen=True)
class Round:
    """One round of one silo, which is released at its gate.

    Attributes:
        run: A settled run of the plan that all silos share.
        silo: Name of the silo.
        after: Merged release of the previous rounds; None in the first.
        secure: Key of the silo, for a masked share; None for a release of its own.
    """

    run: Run
    silo: str
    after: Release | None = None
    secure: SiloKey | None = None

    def __call__(self, gate: Gate, plan: Plan, /) -> Release:
        """Releases the results of the queries of this round at a gate.

        Args:
            gate: The gate with the records of this silo.
            plan: The plan of all rounds.

        Returns:
            The results, with a certificate that names plan, silo and round.
        """
        queries = self.queries(gate.schema, plan)
        # The budget is of all rounds; here only those of this round are answered.
        round_plan = plan.restricted_to(queries)
        certified_facts = self.certified_facts(gate.schema, plan)
        if self.secure is None:
            session = self._open(gate, round_plan, certified_facts)
        else:
            session = self._open_masked(gate, round_plan, certified_facts, self.secure)
        with session:
            session.ask(queries)
        # The session is closed, so nothing more can be asked; its answers are kept.
        return session.release()

    def _open(self, gate: Gate, round_plan: Plan, facts: Mapping[str, Any]) -> Session:
        """Opens a session that answers with this silo's own noise."""
        return gate.open(round_plan, method=self.run.method.name, public=facts)

    def _open_masked(
        self,
        gate: Gate,
        round_plan: Plan,
        facts: Mapping[str, Any],
        key: SiloKey,
    ) -> Session:
        """Opens a session that answers with masked shares of a secure sum (G-32).

        Masks follow from the plan with its shared noise, so that is made first; and the
        certificate states the sum that they belong to, so it is known before the gate
        is opened.
        """
        shared_plan = round_plan.with_shared_noise()
        masking = key.masking_of_round(
            shared_plan, plan=facts["plan"], after=facts.get("after")
        )
        facts_of_share = {**facts, "secure_sum": secure_sum_to_json(masking.sum)}
        return open_share(self._open(gate, shared_plan, facts_of_share), masking)

    def queries(self, schema: Schema, plan: Plan) -> Mapping[str, FeatureMap]:
        """Returns the map of each query in this round, by name; none after the last.

        They follow from public facts alone: the plan, and the merged release of the
        rounds before with its noise.
        """
        method = in_rounds(self.run.method)
        if self.after is None:
            return method.next_round(schema, plan, {}, noise_by_query(plan))
        silos = self.after.certificate.silos
        assert silos is not None
        noise = merged_noise(self.run.method, schema, silos, plan.budget)
        return method.next_round(schema, plan, self.after.values, noise)

    def certified_facts(self, schema: Schema, plan: Plan) -> dict[str, Any]:
        """Returns what the certificate of this round states as public.

        That is what the method takes as public, the identifier of the plan, the name of
        the silo and, after the first round, the digest of the merged release before.
        """
        method = self.run.method
        facts = {
            **method.public_facts(schema),
            "plan": plan_id(method, schema, plan),
            "silo": self.silo,
        }
        if self.after is not None:
            facts["after"] = self.after.certificate.digest()
        return facts


def next_round(
    run: Run, silo: str, after: Release | None = None, secure: SiloKey | None = None
) -> Round:
    """Returns the next round of a silo.

    Args:
        run: A run of the plan that all silos share.
        silo: Name of the silo.
        after: Merged release of the previous rounds; None for the first.
        secure: Key of the silo, for a masked share.

    Raises:
        OptionError: if the silo cannot continue from `after`, or no round remains.
    """
    if not isinstance(silo, str) or not silo.strip() or not silo.isprintable():
        raise OptionError(
            f"silo={silo!r} must be the name of this silo in one line, such as 'north'."
        )
    settled_run = settle_run(run)
    name = silo.strip()
    schema = settled_run.table
    plan = settled_run.method.plan(schema, settled_run.budget)
    if after is not None:
        identifier = plan_id(settled_run.method, schema, plan)
        _check_after(settled_run, name, after, identifier, secure)
    if secure is not None and secure.silo != name:
        raise OptionError(
            f"silo={name!r}: the key is of the silo {secure.silo!r}; give its own."
        )
    silo_round = Round(settled_run, name, after, secure)
    if not silo_round.queries(schema, plan):
        raise OptionError(
            "after: every round of this plan is complete in it; there is nothing "
            "more to release."
        )
    return silo_round


def _check_after(
    run: Run, silo: str, after: Release, identifier: str, secure: SiloKey | None
) -> None:
    """Requires that a silo can continue from the merged release of the rounds before.

    It must be of the same plan, have a part of this silo at the same ε and δ, and be a
    secure sum with as many colluding silos, or none.

    Args:
        run: The silo's run.
        silo: Its name.
        after: The merged release.
        identifier: Identifier of the silo's plan.
        secure: Key of the silo, for a masked share.
    """
    silos = after.certificate.silos
    stated_plan = after.certificate.public.get("plan")
    if silos is None or stated_plan != identifier:
        raise OptionError(
            f"after: its plan is {str(stated_plan)[:16]}, and this silo uses the "
            f"plan {identifier[:16]}; give what `noisegate merge` made of the "
            "first round of this plan."
        )
    members = {member.name: member for member in silos.members}
    if silo not in members:
        raise OptionError(
            f"silo={silo!r} took no part in the previous round, which had "
            f"{', '.join(members)}; give its name."
        )
    own = members[silo]
    if (own.epsilon, own.delta) != (run.budget.epsilon, run.budget.delta):
        raise OptionError(
            f"epsilon={run.epsilon:g} at delta={run.delta:g}: {silo!r} began with "
            f"{own.epsilon:g} at {own.delta:g} for all rounds together; continue "
            "with these."
        )
    colluding = None if secure is None else secure.colluding
    if silos.colluding != colluding:
        if silos.colluding is None:
            before = "no secure sum"
        else:
            before = f"a secure sum with colluding={silos.colluding}"
        raise OptionError(
            f"after: the round before was {before}; continue as it began; "
            "otherwise the noise would differ from the stated one."
        )


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
    log: str | Path | None = None,
    **settings: Any,
) -> Release:
    """Releases the noisy results of one silo under a plan that several silos share.

    No model is fitted; `merge` adds up the releases of all silos.

    Args:
        data: The records of the silo.
        silo: Name of the silo, for the certificate.
        plan: The published plan, as `noisegate plan --save` writes it. Without it,
            `schema`, `method` and its settings define the queries.
        after: Merged release of the previous rounds, if the method has several rounds.
        out: Folder to create; None keeps the release in memory only.
        schema: Public knowledge about the records, or the path of its TOML file.
        epsilon: ε of all rounds together. It may differ from the ε of the plan.
        delta: δ of all rounds together. It may differ from the δ of the plan; 1e-5
            without a plan.
        method: As for `fit`.
        unit: As for `fit`.
        unit_column: As for `fit`.
        contributions: As for `fit`.
        ledger: As for `fit`.
        dataset: As for `fit`.
        secure_sum: Folder with the public keys of all silos, as `noisegate key` writes
            them. The release is then a masked share of the sums, and nobody sees the
            sums of this silo.
        key: File of the private key of this silo, for a secure sum.
        colluding: In a secure sum, the largest number of silos that may share their
            secrets with the party that merges.
        observer: As for `fit`.
        log: As for `fit`.
        settings: Settings of the method.

    Returns:
        The release, with its certificate.

    Raises:
        UserError: if an argument or the data is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses the cost.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, release
        >>> from noisegate.schema import Boolean, Integer
        >>> age = Integer(name="age", lower=0, upper=99)
        >>> schema = Schema([Boolean(name="ill"), age])
        >>> patients = pa.table({"ill": [True, False] * 100, "age": [31, 58] * 100})
        >>> north = release(patients, silo="north", schema=schema, epsilon=1.0)
        >>> north.certificate.public["silo"], sorted(north.values)
        ('north', ['coarse', 'fine'])
    """
    own_price: dict[str, Any] = {
        name: value
        for name, value in (("epsilon", epsilon), ("delta", delta))
        if value is not None
    }
    if plan is not None:
        _refuse_beside_a_plan(
            method,
            unit,
            {
                "schema": schema,
                "unit_column": unit_column,
                "contributions": contributions,
                **settings,
            },
        )
        run = read_plan(Path(plan), dataset=dataset, ledger=ledger, **own_price)
    elif schema is None or epsilon is None:
        raise OptionError(
            "schema and epsilon are missing: give them, or the published plan."
        )
    else:
        request = Request(
            epsilon=epsilon,
            schema=schema,
            delta=1e-5 if delta is None else delta,
            method=method,
            settings=settings,
            unit_column=unit_column,
            contributions=contributions,
            unit=unit,
            dataset=dataset,
            ledger=ledger,
        )
        run = Run.of(request)
    before = after
    if before is not None and not isinstance(before, Release):
        before = read_release(Path(before))
    secure = read_silo_key(secure_sum, key, colluding)
    folder = RunFolder(out, observer=observer, log=log)
    return release_round(folder, next_round(run, silo, before, secure), data)


def _refuse_beside_a_plan(
    method: str | Method, unit: str, options: Mapping[str, Any]
) -> None:
    """Refuses options that define the queries, which a published plan defines.

    Args:
        method: "auto" if it was not given.
        unit: The default if it was not given.
        options: Further options; None if they were not given.
    """
    options_set = [
        f"{name}={value!r}" for name, value in options.items() if value is not None
    ]
    if not options_set and method == AUTO and unit == RECORD:
        return
    if options_set:
        named = options_set[0]
    else:
        named = f"method={method!r}, unit={unit!r}"
    raise OptionError(f"{named}: the published plan says what is queried.")


def release_round(
    folder: RunFolder, silo_round: Round, data: Any, **options: Any
) -> Release:
    """Releases a round, and writes the release to the `out` of a folder, if it has one.

    Args:
        folder: Where the run is written while it continues.
        silo_round: The round.
        data: The records of the silo.
        options: Further options of `release_run`.
    """
    released = release_run(silo_round.run, data, folder, silo_round, **options)
    if folder.out is not None:
        folder.hand_out()
    else:
        folder.remove()
    return released


def read_release(folder: Path) -> Release:
    """Reads the release in a folder, after checking its hashes and its claim."""
    verify_release(folder)
    return Release.load(folder)
