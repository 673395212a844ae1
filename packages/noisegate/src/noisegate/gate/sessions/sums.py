"""Sums in rounds: each question of a plan once; later maps may depend on what was released, costs may not (G-13).

The maps of a later round may depend on the values that earlier rounds released; what
they cost may not: norms, shares and noise of all questions are in the plan (G-13).
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
from noisegate.privacy.plan import PlannedRelease
from noisegate.privacy.release import Release
from noisegate.queries.contingency import Contingency
from noisegate.queries.feature_map import FeatureMap


class SumSession(Session):
    """The rounds of one plan, to be had from `Gate.open`.

    Use it in a ``with`` block, and call `release` once every question is answered, inside the block or behind it.
    """

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._values: dict[str, Values] = {}
        self._started = ExitStack()
        self._engine: Engine | None = None
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
            link: Of linked tables, the child's table in the link whose rows are the records; see `Link.schema`.

        Returns:
            For each, the noisy sum, (dim, columns), in the units of the vectors. The release will hold the same arrays.

        Raises:
            UserError: if a map does not fit its question (nothing is read then, and it may be asked with another map),
                or the data does not fit the schema, or changed since the last round.
            BudgetRefusedError: if the ledger refuses.
        """
        access = self._access
        with self._lock:
            unknown = [name for name in maps if name not in self.open_questions]
            if unknown or not maps:
                raise OptionError(
                    f"feature maps {sorted(maps)} do not match the plan's open queries {list(self.open_questions)}; "
                    "each query is run once."
                )
            if link not in (access.source.links or (None,)):
                links = ", ".join(access.source.links) or "None"
                raise OptionError(
                    f"link={link!r}: questions about {access.source.name} are asked of one of: {links}."
                )
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
            with self._asking():
                values = self._earlier_answers(tasks)
                open_tasks = {
                    name: task for name, task in tasks.items() if name not in values
                }
                if open_tasks:
                    totals = self._running().sum(source, open_tasks, access.progress)
                    self._check_records(totals.records, link)
                for name in open_tasks:
                    values[name] = self._answer(
                        totals.sums[name], self.plan.release(name)
                    )
                    if access.journal is not None:
                        access.journal.answer(name, values[name])
            self._values |= values
            self._close_if_answered()
            return values

    def release(self) -> Release:
        """Returns everything that was answered, with its certificate, and commits the reservation.

        Raises:
            OptionError: if a question is open, or the release was handed out before.
        """
        with self._lock:
            if self.open_questions:
                raise OptionError(
                    f"queries {list(self.open_questions)} have not been run; run all of the plan before release()."
                )
            stds = self._stds()
            return self._release({name: self._values[name] for name in stds}, stds)

    def _earlier_answers(self, tasks: Mapping[str, SumTask]) -> dict[str, Values]:
        """Returns the answers that the run drew before it was stopped: they are given again, and nothing is read.

        Raises:
            OptionError: if one of them answers another map than that of its task.
        """
        journal = self._access.journal
        answers: dict[str, Values] = {}
        for name, task in tasks.items():
            if journal is None or name not in journal.answers:
                continue
            shape = (task.feature_map.dim, task.columns)
            if (
                journal.begun[name] != self._map_digests[name]
                or journal.answers[name].shape != shape
            ):
                raise OptionError(
                    f"query {name!r} was answered for another map before the run was stopped: this machine, or this "
                    "version of noisegate or of another package, computes in another way. Go on where the run began."
                )
            answers[name] = journal.answers[name]
        return answers

    def _mark_begun(self, query: str) -> None:
        journal = self._access.journal
        if journal is not None:
            journal.begin(query, self._map_digests.get(query))

    @property
    def _answered(self) -> bool:
        return not self.open_questions

    def _running(self) -> Engine:
        if self._engine is None:
            assert self._access.engine is not None
            self._engine = self._started.enter_context(self._access.engine.opened())
        return self._engine

    def _close_if_answered(self) -> None:
        if self._answered:
            self._started.close()

    def _end(self) -> None:
        super()._end()
        self._started.close()

    def _stds(self) -> dict[str, float]:
        """Returns, for each value of the release, the standard deviation of its noise."""
        return {
            release.query.name: release.noise_std_natural
            for release in self.plan.releases
        }

    def _answer(self, sums: Integers, release: PlannedRelease) -> Values:
        noisy = self._noisy(sums, release.event)
        return np.ascontiguousarray(release.query.grid.restore(noisy).T)

    def _task(self, name: str, feature_map: FeatureMap, source: Any) -> SumTask:
        question, layout = self.plan.release(name).query, source.schema.layout
        label = layout.label if question.columns > 1 else None
        columns = 1 if label is None else layout.coded[label].size
        fits = (
            feature_map.dim <= question.dim
            if question.adaptive
            else feature_map.dim == question.dim
        )
        if not fits or columns != question.columns:
            raise OptionError(
                f"query {name!r} was planned as {'at most ' * question.adaptive}{question.dim} x "
                f"{question.columns}, its map and the schema give {feature_map.dim} x {columns}."
            )
        task = SumTask(
            feature_map=feature_map, grid=question.grid, columns=columns, label=label
        )
        if isinstance(feature_map, Contingency):
            sizes = tuple(column.size for column in layout.coded)
            if (
                len(feature_map.bins) != len(layout.numeric)
                or feature_map.coded != sizes
            ):
                raise OptionError(
                    f"query {name!r}: its tables are of {len(feature_map.bins)} numeric columns and coded ones of "
                    f"sizes {feature_map.coded}; the schema has {len(layout.numeric)} and {sizes}."
                )
        if source.in_parts and not task.takes_parts:
            raise OptionError(
                f"query {name!r}: of linked tables, and of units by their mean, only counts of cells are summed."
            )
        # What is looked up or counted is integers of the record alone (G-06, G-12, G-23); there is nothing to probe.
        if task.exact is not None:
            return task
        # Votes and angles hide what an encoding rounds; so that is probed, in blocks of the size that is summed.
        hidden = is_reviewed(type(feature_map), ENCODED)
        seen = cast("Any", feature_map).encoding if hidden else feature_map
        rows = block_rows(feature_map, len(layout.numeric))
        return replace(task, chosen=map_execution(name, seen, layout, rows))
