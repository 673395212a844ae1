"""Sums in rounds: each query of a plan is answered once, by a sum over all records.

A round is one pass over the records. The feature maps of a later round may depend on
what earlier rounds released. What a round costs may not: norms and noise of all queries
are fixed in the plan (G-13).

How to read it: `SumSession.ask` is a round, `_task` checks that a map fits its query
and finds how it is computed, and `_answer` adds the noise to an exact sum.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.execution import block_rows, map_digest, map_execution
from noisegate.gate.session import Access, Integers, Session, Values
from noisegate.gate.sums import ENCODED, Engine, SumTask, is_reviewed
from noisegate.privacy.plan import NoisySum, Query
from noisegate.privacy.release import Release
from noisegate.queries.contingency import Contingency
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Layout


class SumSession(Session):
    """Answers the queries of one plan in rounds; `Gate.open` returns it.

    A round is one pass over the records, which answers some of the queries. Use the
    session in a ``with`` block, and call `release` once every query is answered, inside
    the block or behind it.

    Args:
        access: The records, the plan, and the means.
    """

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        # Noisy answers so far, by query.
        self._values: dict[str, Values] = {}
        # The engine of all rounds; None before the first one.
        self._engine: Engine | None = None
        # Closes the engine when everything is answered, or the session ends.
        self._engine_stack = ExitStack()
        # Hash of each feature map, by query; filled where the run has a journal.
        self._map_digests: dict[str, str] = {}

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
        access = self._access
        with self._lock:
            self._check_names(maps, link)
            source = access.source if link is None else access.source.link(link)
            tasks = {
                name: self._task(name, feature_map, source)
                for name, feature_map in maps.items()
            }
            if access.journal is not None:
                for name, task in tasks.items():
                    self._map_digests[name] = map_digest(
                        task.feature_map, source.schema.layout, task.execution
                    )

            with self._reading_records():
                values = self._earlier_answers(tasks)
                open_tasks = {
                    name: task for name, task in tasks.items() if name not in values
                }
                if open_tasks:
                    engine = self._started_engine()
                    totals = engine.sum(source, open_tasks, access.progress)
                    self._check_record_count(totals.records, link)
                for name in open_tasks:
                    values[name] = self._answer(
                        totals.sums[name], self.plan.release(name)
                    )
                    if access.journal is not None:
                        access.journal.write_answer(name, values[name])
            self._values |= values
            self._stop_engine_if_answered()
            return values

    def release(self) -> Release:
        """Releases all answers with their certificate, and commits the reservation.

        Returns:
            The answers in the order of the plan, with their certificate.

        Raises:
            OptionError: if a query is not answered yet, or the release was handed out
                before.
        """
        with self._lock:
            if self.open_queries:
                raise OptionError(
                    f"queries {list(self.open_queries)} have not been run; run all "
                    "of the plan before release()."
                )
            stds = self._stds()
            return self._release({name: self._values[name] for name in stds}, stds)

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
        source = self._access.source
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
                f"link={link!r}: questions about {source.name} are asked of one of: "
                f"{links}."
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
        journal = self._access.journal
        answers: dict[str, Values] = {}
        for name, task in tasks.items():
            if journal is None or name not in journal.answers:
                continue
            is_same_map = journal.begun_maps[name] == self._map_digests[name]
            shape = (task.feature_map.dim, task.columns)
            if not is_same_map or journal.answers[name].shape != shape:
                raise OptionError(
                    f"query {name!r} was answered for another map before the run was "
                    "stopped: this machine, or this version of noisegate or of another "
                    "package, computes in another way. Go on where the run began."
                )
            answers[name] = journal.answers[name]
        return answers

    def _mark_begun(self, query: str) -> None:
        """Writes into the journal that a query's noise is about to be drawn.

        Args:
            query: Name of the query; the hash of its map is written too.
        """
        journal = self._access.journal
        if journal is not None:
            journal.begin_query(query, self._map_digests.get(query))

    @property
    def _is_answered(self) -> bool:
        """Whether the whole plan is answered."""
        return not self.open_queries

    def _started_engine(self) -> Engine:
        """Returns the engine of all rounds, which the first call opens."""
        if self._engine is None:
            assert self._access.engine is not None
            self._engine = self._engine_stack.enter_context(
                self._access.engine.opened()
            )
        return self._engine

    def _stop_engine_if_answered(self) -> None:
        """Closes the engine once the whole plan is answered."""
        if self._is_answered:
            self._engine_stack.close()

    def _end_session(self) -> None:
        """Ends the session, so that it answers nothing more, and closes its engine."""
        super()._end_session()
        self._engine_stack.close()

    def _stds(self) -> dict[str, float]:
        """Returns the standard deviation of the noise in each released value.

        Returns:
            Standard deviations in the units of the values, by name, in the order of the
            plan.
        """
        return {
            release.query.name: release.noise_std_natural
            for release in self.plan.releases
        }

    def _answer(self, sums: Integers, release: NoisySum) -> Values:
        """Draws the noise of a query and adds it to the exact sum.

        Args:
            sums: Exact sum in grid units, (columns, dim); private.
            release: The planned query, with its noise.

        Returns:
            The noisy sum, (dim, columns), in the units of the vectors.
        """
        noisy_sums = self._add_noise(sums, release.event)
        return np.ascontiguousarray(release.query.grid.restore(noisy_sums).T)

    def _task(self, name: str, feature_map: FeatureMap, source: Any) -> SumTask:
        """Checks that a map fits its query, and finds how its vectors are computed.

        A record's vector must not depend on other records (G-06). So a map is probed:
        it is computed on made-up records in differently arranged blocks. A reviewed map
        that adds up integers of its own needs no probe.

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
                f"query {name!r}: of linked tables, and of units by their mean, only "
                "counts of cells are summed."
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
