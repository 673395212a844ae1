"""Sums in rounds: each question of a plan is answered once, by a sum over all records.

A round is one pass over the records. The maps of a later round may depend on what
earlier rounds released; what they cost may not: norms, shares and noise of all
questions are in the plan (G-13).

How to read it: `SumSession.ask` is a round, `_task` says whether a map fits its
question and how it is computed, and `_answer` turns an exact sum into an answer.
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
from noisegate.privacy.plan import PlannedRelease, Query
from noisegate.privacy.release import Release
from noisegate.queries.contingency import Contingency
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Layout


class SumSession(Session):
    """Answers the questions of one plan in rounds, to be had from `Gate.open`.

    Use it in a ``with`` block, and call `release` once every question is answered,
    inside the block or behind it.

    Args:
        access: What the gate grants; its plan is a `CalibratedPlan`.
    """

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._values: dict[str, Values] = {}
        self._engine: Engine | None = None
        # Stops the engine when everything is answered, or the session ends.
        self._engine_stack = ExitStack()
        # Digest of each map, by question; filled where the run has a journal.
        self._map_digests: dict[str, str] = {}

    @property
    def open_questions(self) -> tuple[str, ...]:
        """Names of the questions that are not answered yet."""
        names = (release.query.name for release in self.plan.releases)
        return tuple(name for name in names if name not in self._values)

    def ask(
        self, maps: Mapping[str, FeatureMap], *, link: str | None = None
    ) -> dict[str, Values]:
        """Answers some of the plan's questions in one pass over the records.

        Args:
            maps: For each of these questions, the map from a record to its vector.
            link: Of linked tables, the child's table in the link whose rows are the
                records; see `Link.schema`.

        Returns:
            For each, the noisy sum, (dim, columns), in the units of the vectors. The
            release will hold the same arrays.

        Raises:
            UserError: if a map does not fit its question (nothing is read then, and it
                may be asked with another map), or the data does not fit the schema, or
                changed since the last round.
            BudgetRefusedError: if the ledger refuses.
        """
        # First all that can be refused without the records, then the pass, then the
        # noise of each question. An answer is in the journal before the next question
        # has noise, and in this session's memory once all of them are there.
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
        """Releases everything that was answered, and commits the reservation.

        Returns:
            The answers in the order of the plan, with their certificate.

        Raises:
            OptionError: if a question is open, or the release was handed out before.
        """
        with self._lock:
            if self.open_questions:
                raise OptionError(
                    f"queries {list(self.open_questions)} have not been run; run all "
                    "of the plan before release()."
                )
            stds = self._stds()
            return self._release({name: self._values[name] for name in stds}, stds)

    def _check_names(self, maps: Mapping[str, FeatureMap], link: str | None) -> None:
        """Checks that maps answer open questions, and that the source has the link.

        Raises:
            OptionError: naming what does not fit.
        """
        source = self._access.source
        unknown_names = [name for name in maps if name not in self.open_questions]
        if unknown_names or not maps:
            raise OptionError(
                f"feature maps {sorted(maps)} do not match the plan's open queries "
                f"{list(self.open_questions)}; each query is run once."
            )
        # A single table has no links, and is asked without one.
        if link not in (source.links or (None,)):
            links = ", ".join(source.links) or "None"
            raise OptionError(
                f"link={link!r}: questions about {source.name} are asked of one of: "
                f"{links}."
            )

    def _earlier_answers(self, tasks: Mapping[str, SumTask]) -> dict[str, Values]:
        """Returns the answers that the run drew before it was stopped.

        They are handed out again, without reading a record or drawing noise.

        Args:
            tasks: The questions of this round.

        Returns:
            Answers of those that the journal has, (dim, columns) each.

        Raises:
            OptionError: if one of them answers another map than that of its task.
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
        """Writes into the journal that a query is begun, with the hash of its map."""
        journal = self._access.journal
        if journal is not None:
            journal.begin_query(query, self._map_digests.get(query))

    @property
    def _is_answered(self) -> bool:
        """Whether the whole plan is answered."""
        return not self.open_questions

    def _started_engine(self) -> Engine:
        """Returns the engine of all rounds, and starts it in the first call."""
        if self._engine is None:
            assert self._access.engine is not None
            self._engine = self._engine_stack.enter_context(
                self._access.engine.opened()
            )
        return self._engine

    def _stop_engine_if_answered(self) -> None:
        """Stops the engine once the plan is answered; the session stays as it is."""
        if self._is_answered:
            self._engine_stack.close()

    def _end_session(self) -> None:
        """Ends the session, and stops its engine."""
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

    def _answer(self, sums: Integers, release: PlannedRelease) -> Values:
        """Draws the noise of a question and adds it to the exact sum.

        Args:
            sums: Exact sum in grid units, (columns, dim); private.
            release: What was planned for the question.

        Returns:
            The noisy sum, (dim, columns), in the units of the vectors.
        """
        noisy_sums = self._add_noise(sums, release.event)
        return np.ascontiguousarray(release.query.grid.restore(noisy_sums).T)

    def _task(self, name: str, feature_map: FeatureMap, source: Any) -> SumTask:
        """Prepares the sum of one question, and finds how its map is computed.

        A map that has not its own exact sum is tried on made-up records: its vector of
        a record must not depend on other records (G-06).

        Args:
            name: Name of the question.
            feature_map: Its map from a record to its vector.
            source: The private records, none of which is read.

        Raises:
            OptionError: if the map does not fit the question, the schema or the
                records, or its vectors depend on other records.
        """
        query = self.plan.release(name).query
        layout: Layout = source.schema.layout
        # The sum of an answer with several columns is taken for each label.
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

        # What a reviewed map looks up or counts is integers of the record alone (G-06,
        # G-12, G-23), so there is nothing to try.
        if task.exact_sum is not None:
            return task
        # The votes and angles of these maps hide what their encoding rounds, so the
        # encoding is tried in their place, in blocks of the size that is summed.
        hides_rounding = is_reviewed(type(feature_map), ENCODED)
        if hides_rounding:
            tried_map = cast("Any", feature_map).encoding
        else:
            tried_map = feature_map
        rows = block_rows(feature_map, len(layout.numeric))
        return replace(
            task, probed_execution=map_execution(name, tried_map, layout, rows)
        )


def _check_size(name: str, query: Query, dim: int, columns: int) -> None:
    """Checks that the answer to a question has the size that was paid for.

    Args:
        name: Name of the question.
        query: What was planned; an adaptive question may have a smaller answer.
        dim: Coordinates of the map's vectors.
        columns: Columns of the answer by the schema: 1, or one for each label.

    Raises:
        OptionError: if it has another.
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
    """Checks that contingency tables are of the columns that the schema has.

    Raises:
        OptionError: if they are of others.
    """
    sizes = tuple(column.size for column in layout.coded)
    numeric_count = len(layout.numeric)
    if len(feature_map.bins) != numeric_count or feature_map.coded != sizes:
        raise OptionError(
            f"query {name!r}: its tables are of {len(feature_map.bins)} numeric "
            f"columns and coded ones of sizes {feature_map.coded}; the schema has "
            f"{numeric_count} and {sizes}."
        )
