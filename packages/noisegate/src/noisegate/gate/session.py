"""Sessions: the queries of one plan are answered, by sums in rounds and by steps.

A round is one pass over the records, in which each of some queries is answered by a sum
over all of them. The feature maps of a later round may depend on what earlier rounds
released. What a round costs may not: norms and noise of all queries are fixed in the
plan (G-13). Steps are taken on samples of the records (`gate.steps`).

How an exact sum becomes an answer is up to `Answers`: with noise here, as a masked
share of a sum over silos (`gate.silos.session`), or as the total of a stream
(`gate.streams.session`).

How to read it: `Session.ask` is a round, `_task` checks that a map fits its query and
finds how it is computed, and `NoisySums.answer` adds the noise to an exact sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.execution import block_rows, map_digest, map_execution
from noisegate.gate.steps import StepCounter, Steps, StepVectors
from noisegate.gate.sums import ENCODED, SumTask, is_reviewed
from noisegate.gate.transaction import (
    Access,
    Answering,
    Integers,
    Reservation,
    Transaction,
    Values,
)
from noisegate.privacy.plan import NoisySum, Plan, Query
from noisegate.privacy.release import Release
from noisegate.queries.contingency import Contingency
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Layout


class Answers(Protocol):
    """How the exact sums of a session become what leaves it."""

    @property
    def may_be_empty(self) -> bool:
        """Whether there may be no records."""

    def check_record_count(self, record_count: int, source_name: str, /) -> None:
        """Checks the number of records of a pass, before its sums are used.

        Args:
            record_count: The number; private.
            source_name: What messages call the records.

        Raises:
            DataError: if there are too many.
        """

    def answer(
        self, transaction: Transaction, sums: Integers, release: NoisySum, /
    ) -> Values:
        """Draws the noise of a query, and adds it to the exact sum.

        Args:
            transaction: Pays for the noise, and draws it.
            sums: Exact sum in grid units, (columns, dim); private.
            release: The planned query, with its noise.

        Returns:
            What is released, (numbers, columns), in the units of the vectors.
        """

    def noise_std(self, release: NoisySum, /) -> float:
        """Returns the standard deviation of the noise in an answer, in its units."""

    def released(
        self, plan: Plan, values: dict[str, Values], noise_std: dict[str, float], /
    ) -> tuple[dict[str, Values], dict[str, float]]:
        """Returns all that is released, by name, with the noise in it.

        Args:
            plan: The plan.
            values: The answers, by query.
            noise_std: Standard deviation of the noise in each answer.
        """


class NoisySums:
    """Answers with the sum and its noise, as almost all sessions do."""

    may_be_empty = False

    def check_record_count(self, record_count: int, source_name: str) -> None:
        """Allows any number of records."""

    def answer(
        self, transaction: Transaction, sums: Integers, release: NoisySum
    ) -> Values:
        """Draws the noise of a query, and adds it to the exact sum; see `Answers`."""
        noisy_sums = transaction.add_noise(sums, release.event)
        return in_natural_units(noisy_sums, release)

    def noise_std(self, release: NoisySum) -> float:
        """Returns the standard deviation of the noise, in the units of the vectors."""
        return release.noise_std_natural

    def released(
        self, plan: Plan, values: dict[str, Values], noise_std: dict[str, float]
    ) -> tuple[dict[str, Values], dict[str, float]]:
        """Returns the answers as they are, with the noise in them."""
        return values, noise_std


class Session(Answering):
    """Answers one plan: its queries in rounds, and its steps if it has any.

    `Gate.open`, `Gate.gradients`, `Gate.batch` and `Gate.shards` return it. A round is
    one pass over the records, which answers some of the queries. Use the session in a
    ``with`` block, and call `release` once everything is answered, inside the block or
    behind it.

    Args:
        transaction: Pays for the plan.
        answers: How exact sums become answers.
        steps: The steps of the plan; None where it has only queries.
    """

    def __init__(
        self,
        transaction: Transaction,
        *,
        answers: Answers | None = None,
        steps: Steps | None = None,
    ) -> None:
        super().__init__(transaction)
        self._answers = NoisySums() if answers is None else answers
        self._steps = steps
        # Answers so far, by query.
        self._values: dict[str, Values] = {}

    @property
    def open_queries(self) -> tuple[str, ...]:
        """Names of the queries that are not answered yet, in the order of the plan."""
        names = (release.query.name for release in self.plan.releases)
        return tuple(name for name in names if name not in self._values)

    def ask(
        self, maps: Mapping[str, FeatureMap], *, link: str | None = None
    ) -> dict[str, Values]:
        """Answers some of the plan's queries in one round, a pass over the records.

        First comes all that can be refused without the records, then the pass, then the
        noise of each query in turn. With a journal, the answer to a query is on disk
        before the noise of the next one is drawn, and answers that an interrupted run
        has left there are returned without reading or drawing anything.

        Args:
            maps: For each of these queries, by name, the map from a record to its
                vector.
            link: Of linked tables, the child's table in the link whose rows are the
                records; see `Link.schema`. None for a single table.

        Returns:
            The noisy sum for each query, (dim, columns), in the units of the vectors.
            The release will hold the same arrays.

        Raises:
            UserError: if a map does not fit its query (nothing is read then, and the
                query may be asked again with another map), or the data does not fit the
                schema, or changed since the last round.
            BudgetRefusedError: if the ledger refuses.
        """
        transaction = self._transaction
        access = transaction.access
        with transaction.lock:
            self._check_names(maps, link)
            source = access.source if link is None else access.source.link(link)
            tasks = {
                name: self._task(name, feature_map, source)
                for name, feature_map in maps.items()
            }
            if access.journal is not None:
                for name, task in tasks.items():
                    transaction.map_digests[name] = map_digest(
                        task.feature_map, source.schema.layout, task.execution
                    )

            with transaction.reading_records():
                values = self._earlier_answers(tasks)
                open_tasks = {
                    name: task for name, task in tasks.items() if name not in values
                }
                if open_tasks:
                    values |= self._new_answers(source, open_tasks, link)
            self._values |= values
            self._close_engine_if_answered()
            return values

    def _new_answers(
        self, source: Any, tasks: Mapping[str, SumTask], link: str | None
    ) -> dict[str, Values]:
        """Sums over all records, and draws the noise of each query in turn.

        Args:
            source: The private records.
            tasks: The sum to take for each query, by name of the query.
            link: Of linked tables, the link whose rows are read; None for a single
                table.

        Returns:
            The answers, by query.
        """
        transaction = self._transaction
        access = transaction.access
        engine = transaction.started_engine()
        totals = engine.sum(source, tasks, access.progress)
        transaction.check_record_count(
            totals.records, link, may_be_empty=self._answers.may_be_empty
        )
        self._answers.check_record_count(totals.records, access.source.name)
        values: dict[str, Values] = {}
        for name in tasks:
            values[name] = self._answers.answer(
                transaction, totals.sums[name], self.plan.release(name)
            )
            if access.journal is not None:
                access.journal.write_answer(name, values[name])
        return values

    @property
    def remaining_steps(self) -> int:
        """How many steps were paid for and not begun; 0 for a plan without steps."""
        return 0 if self._steps is None else self._steps.remaining

    def prepare_steps(self, parameters: Mapping[str, Any]) -> None:
        """Checks parameters, and probes the query of the steps in the first call.

        The probe tries the computation on simulated records: what it computes of a
        record must not depend on other records. No private record is read, and nothing
        is spent. `step` does the same by itself. Call this first where queries come
        before the steps, so that they are not paid for in vain if a step would be
        refused.

        Args:
            parameters: Public parameters, by name, of the shapes of the plan.

        Raises:
            OptionError: if parameters, loss or function do not fit.
        """
        with self._transaction.lock:
            self._planned_steps().prepare(parameters)

    def step(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Computes the vector of a fresh sample of the records, and adds noise.

        For gradients, the vector is the sum of the clipped gradients at the records in
        a Poisson sample. A step is marked as begun before its sample is drawn, and its
        noise is drawn last. If it is interrupted in between, the step is used up: it is
        paid for, and no other noise is drawn for it.

        Args:
            parameters: Public parameters, by name: those with respect to which
                gradients are taken, or those that the function of a sample gets.

        Returns:
            The noisy vector as arrays of the planned shapes, by name, in the units of
            the gradients.

        Raises:
            OptionError: if no step is left, or parameters, loss or function do not fit
                (nothing is read or used then).
            DataError: if the data does not fit the schema.
            BudgetRefusedError: if the ledger refuses.
        """
        with self._transaction.lock:
            noisy = self._planned_steps().take(parameters)
            self._close_engine_if_answered()
            return noisy

    def _planned_steps(self) -> Steps:
        """Returns the steps of the plan.

        Raises:
            OptionError: if it has none.
        """
        if self._steps is None:
            raise OptionError("the plan has no steps.")
        return self._steps

    def release(self, parameters: Mapping[str, Any] | None = None) -> Release:
        """Releases all answers with their certificate, and commits the reservation.

        After steps, that is what was trained on them too, and the journal of the steps
        is removed once the reservation is committed. If the process dies before, the
        run may be resumed and released again.

        Args:
            parameters: Public parameters that were trained on what the steps returned,
                by name, of the shapes of the plan's `released`; None for a plan without
                steps.

        Returns:
            The answers in the order of the plan, and the parameters, with their
            certificate.

        Raises:
            OptionError: if a query is not answered yet, parameters are missing or do
                not fit, no step was taken, or the release was returned before.
        """
        with self._transaction.lock:
            if self._steps is not None:
                trained = self._steps.packed(parameters)
            if self.open_queries:
                raise OptionError(
                    f"queries {list(self.open_queries)} have not been run; run all "
                    "of the plan before release()."
                )
            values = {
                release.query.name: self._values[release.query.name]
                for release in self.plan.releases
            }
            noise_std = {
                release.query.name: self._answers.noise_std(release)
                for release in self.plan.releases
            }
            if self._steps is not None:
                values[self._steps.name] = trained
                noise_std[self._steps.name] = self._steps.noise_std
            released = self._transaction.release(
                *self._answers.released(self.plan, values, noise_std)
            )
        if self._steps is not None:
            self._steps.remove_journal()
        return released

    def _check_names(self, maps: Mapping[str, FeatureMap], link: str | None) -> None:
        """Checks that all maps belong to open queries, and that the link exists.

        Args:
            maps: The map of each query that is asked, by name of the query.
            link: Of linked tables, the link whose rows are read; None for a single
                table.

        Raises:
            OptionError: if a name is not that of an open query, there are no maps, or
                the source has no such link.
        """
        source = self._transaction.access.source
        unknown_names = [name for name in maps if name not in self.open_queries]
        if unknown_names or not maps:
            raise OptionError(
                f"feature maps {sorted(maps)} do not match the plan's open queries "
                f"{list(self.open_queries)}; each query is run once."
            )
        # A single table has no links, and is read without one.
        if link not in (source.links or (None,)):
            links = ", ".join(source.links) or "None"
            raise OptionError(
                f"link={link!r}: queries of {source.name} need one of: {links}."
            )

    def _earlier_answers(self, tasks: Mapping[str, SumTask]) -> dict[str, Values]:
        """Returns answers of this round that the run had drawn before it was stopped.

        The journal has them. They are returned again as they are: other noise for the
        same query would cost again.

        Args:
            tasks: The sum to take for each query of this round, by name of the query.

        Returns:
            The answers that the journal has, by query, (dim, columns) each.

        Raises:
            OptionError: if an answer was drawn for another map than that of its query.
        """
        journal = self._transaction.access.journal
        digests = self._transaction.map_digests
        answers: dict[str, Values] = {}
        for name, task in tasks.items():
            if journal is None or name not in journal.answers:
                continue
            is_same_map = journal.begun_maps[name] == digests[name]
            shape = (task.feature_map.dim, task.columns)
            if not is_same_map or journal.answers[name].shape != shape:
                raise OptionError(
                    f"query {name!r} was run with another map before the run was "
                    "stopped: this machine, or this version of noisegate or of "
                    "another package, computes in another way. Continue where the "
                    "run began."
                )
            answers[name] = journal.answers[name]
        return answers

    def _close_engine_if_answered(self) -> None:
        """Closes the engine once no query and no step is left."""
        if not self.open_queries and not self.remaining_steps:
            self._transaction.close_engine()

    def _task(self, name: str, feature_map: FeatureMap, source: Any) -> SumTask:
        """Checks that a map fits its query, and finds how its vectors are computed.

        A record's vector must not depend on other records (G-06). So a map is probed:
        it is computed on simulated records in differently arranged blocks. A reviewed
        map that adds up integers of its own needs no probe.

        Args:
            name: Name of the query.
            feature_map: The map from a record to its vector.
            source: The private records, none of which is read.

        Returns:
            The sum to take for the query.

        Raises:
            OptionError: if the map does not fit the query, the schema or the records,
                or its vectors depend on other records.
        """
        query = self.plan.release(name).query
        layout: Layout = source.schema.layout
        # An answer with several columns has one for each label.
        label = layout.label if query.columns > 1 else None
        columns = 1 if label is None else layout.coded[label].size
        _check_size(name, query, feature_map.dim, columns)
        task = SumTask(
            feature_map=feature_map, grid=query.grid, columns=columns, label=label
        )
        if isinstance(feature_map, Contingency):
            _check_tables(name, feature_map, layout)
        if source.is_weighted and not task.accepts_weighted_rows:
            raise OptionError(
                f"query {name!r}: linked tables, and units that count by their "
                "mean, support counts of cells only."
            )

        # The integers that a reviewed map looks up or counts follow from the record
        # alone (G-06, G-12, G-23), so there is nothing to probe.
        if task.exact_sum is not None:
            return task
        # The vectors of these maps, such as votes, hide that their encoding rounds. So
        # the encoding is probed in their place, in blocks of the size that is summed.
        hides_rounding = is_reviewed(type(feature_map), ENCODED)
        if hides_rounding:
            probed_map = cast("Any", feature_map).encoding
        else:
            probed_map = feature_map
        rows = block_rows(feature_map, len(layout.numeric))
        return replace(
            task, probed_execution=map_execution(name, probed_map, layout, rows)
        )


def in_natural_units(sums: Integers, release: NoisySum) -> Values:
    """Converts sums in grid units, (columns, dim), to those of the vectors, transposed.

    Args:
        sums: Noisy sums, (columns, dim).
        release: The planned query, with its grid.

    Returns:
        The sums in the units of the vectors, (dim, columns).
    """
    return np.ascontiguousarray(release.query.grid.restore(sums).T)


def open_steps(
    access: Access, vectors: StepVectors, *, journal: Path | None = None
) -> Session:
    """Opens a session that answers the steps of a plan, and its queries if it has any.

    The cost of the whole plan is reserved before the first record is read, and stays
    spent from the first noise on, however many steps follow.

    Args:
        access: The records, the plan, which has steps, and the means.
        vectors: What a step computes.
        journal: File that counts the steps begun, so that an interrupted run can
            continue; None for a run that cannot.

    Raises:
        OptionError: if the journal is of another run, or the plan cannot be resumed.
    """
    query = vectors.query
    settings = {**vectors.public_settings, "parameters": _shapes(query.parameters)}
    if query.trained is not None:
        settings["trained"] = _shapes(query.trained)
    public = {**access.public, "gradients": {query.name: settings}}
    counter = StepCounter(query.steps)
    transaction = Transaction(replace(access, public=public), begun_steps=counter)
    if journal is not None:
        # Before the file is examined: such a plan can use no journal at all.
        if access.plan.releases:
            raise OptionError(
                "journal: a run with queries cannot be resumed, as their results are "
                "kept in memory; run them at a gate of their own, or leave out the "
                "journal."
            )
        assert isinstance(access.reservation, Reservation)
        # Now, as the digest that identifies a run is of all public settings.
        counter.open_journal(journal, transaction.run_digest(), access.reservation)
    return Session(transaction, steps=Steps(transaction, vectors, counter))


def _shapes(arrays: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    """Returns shapes by name as lists, which JSON can express."""
    return {name: list(shape) for name, shape in arrays.items()}


def _check_size(name: str, query: Query, dim: int, columns: int) -> None:
    """Checks that the answer to a query has the size that was planned and paid for.

    Args:
        name: Name of the query.
        query: The planned query. If it is adaptive, its answer may have fewer
            coordinates than planned.
        dim: Number of coordinates of the map's vectors.
        columns: Number of columns of the answer by the schema: 1, or one for each
            label.

    Raises:
        OptionError: if the answer has another size.
    """
    if query.adaptive:
        has_planned_dim = dim <= query.dim
    else:
        has_planned_dim = dim == query.dim
    if not has_planned_dim or columns != query.columns:
        bound = "at most " if query.adaptive else ""
        raise OptionError(
            f"query {name!r} was planned as {bound}{query.dim} x {query.columns}, its "
            f"map and the schema give {dim} x {columns}."
        )


def _check_tables(name: str, feature_map: Contingency, layout: Layout) -> None:
    """Checks that contingency tables are built for the columns that the schema has.

    Args:
        name: Name of the query.
        feature_map: The tables.
        layout: Columns of the records.

    Raises:
        OptionError: if the number of numeric columns or the sizes of the coded columns
            differ.
    """
    sizes = tuple(column.size for column in layout.coded)
    numeric_count = len(layout.numeric)
    if len(feature_map.bins) != numeric_count or feature_map.coded != sizes:
        raise OptionError(
            f"query {name!r}: its tables are of {len(feature_map.bins)} numeric "
            f"columns and coded ones of sizes {feature_map.coded}; the schema has "
            f"{numeric_count} and {sizes}."
        )
