"""Draws parents and children of one link, until they keep to the rules of the schema.

The records of the first table come from its link's mixture. All others are children::

    sample_roots ──► parents ──► sample_children ──► families: the next link's parents
                                    ▲         │
                                    ╰─────────╯ families that break a rule, 30 times

A family is a parent with all its children. A family with a child that breaks a rule is
drawn again as a whole, with as many children, so that their number keeps its
distribution. What breaks a rule even then is left out and counted; so sampling always
ends, and a user is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from noisegate.answers.verdict import Verdict
from noisegate.models.linked.chain import (
    Cells,
    Chain,
    ColumnModel,
    Counts,
    FamilyCells,
    Floats,
)
from noisegate.models.mixture import Mixture
from noisegate.models.record_model import Array
from noisegate.models.rejection import (
    Tally,
    accepted_batches,
    accepted_within,
    explain_rejection,
    rejecting_rules,
    rejection_rates,
    verdict_of_rules,
)
from noisegate.records import Rows
from noisegate.schema import EncodedTable
from noisegate.schema.columns import NumericColumn
from noisegate.schema.constraints import Region
from noisegate.schema.layout import Layout, numbers_at
from noisegate.schema.linked.links import Link, LinkColumns
from noisegate.schema.linked.table_schema import origin_ticks, positions_at
from noisegate.seeds import uniform

if TYPE_CHECKING:
    import torch

Flags = npt.NDArray[np.bool_]

FAMILY_RETRIES = 30
"""How often a family that breaks a rule is drawn again, at most."""

# How many of each a verdict looks at, to see how many keep to the rules.
_VERDICT_ROOTS = 4096
_VERDICT_FAMILIES = 1024

# Parents that a fit below them rests on come from so many candidates each, at most. If
# few are accepted, fewer parents do as well.
_CANDIDATES_PER_PARENT = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedFamilies:
    """The children of some parents, encoded."""

    child_counts: Counts  # of each parent, (parents,)
    children: Rows  # in their order, one parent after the other
    breaks_rule: Flags  # which children break a rule, (children,)
    # Which come after the last date of the schema, and were moved to it, (children,).
    is_late: Flags

    @cached_property
    def parents(self) -> Counts:
        """The index of the parent of each child, (children,)."""
        return np.repeat(np.arange(len(self.child_counts)), self.child_counts)

    def broken_parents(self) -> Counts:
        """Returns the parents of broken or late children, ascending, each once."""
        return np.unique(self.parents[self.breaks_rule | self.is_late])

    def with_families(
        self, parents: Counts, redrawn: EncodedFamilies
    ) -> EncodedFamilies:
        """Replaces the children of some parents.

        Args:
            parents: Index of these parents, (redrawn parents,).
            redrawn: Their new children.
        """
        is_kept = ~np.isin(self.parents, parents)
        parent_of_child = np.concatenate(
            [self.parents[is_kept], parents[redrawn.parents]]
        )
        order = np.argsort(parent_of_child, kind="stable")
        children = Rows.concatenate([self.children.rows(is_kept), redrawn.children])
        breaks_rule = np.concatenate([self.breaks_rule[is_kept], redrawn.breaks_rule])
        is_late = np.concatenate([self.is_late[is_kept], redrawn.is_late])
        return EncodedFamilies(
            child_counts=np.bincount(parent_of_child, minlength=len(self.child_counts)),
            children=children.rows(order),
            breaks_rule=breaks_rule[order],
            is_late=is_late[order],
        )

    def select(self, is_kept: Flags) -> EncodedFamilies:
        """Returns the families with some of their children, (children,)."""
        return EncodedFamilies(
            child_counts=np.bincount(
                self.parents[is_kept], minlength=len(self.child_counts)
            ),
            children=self.children.rows(is_kept),
            breaks_rule=self.breaks_rule[is_kept],
            is_late=self.is_late[is_kept],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkModel:
    """The model of one link: draws its parents, and their children.

    Attributes:
        link: The two tables.
        chain: Draws the children of given parents, in cells.
        parent_model: The model of the link whose children are the parents here; None if
            the parents are records of the first table, which this model draws itself.
    """

    link: Link
    chain: Chain
    parent_model: LinkModel | None = None

    def sample_roots(
        self, n: int, random: torch.Generator, region: Region | None = None
    ) -> Rows:
        """Samples records of the first table that keep to its constraints.

        Args:
            n: Number of records.
            random: Public randomness.
            region: A region in which they all lie; None for no condition.

        Returns:
            The records, encoded.

        Raises:
            RejectionError: if too few of the records that the model draws are accepted.
        """
        schema = self.link.parent.schema
        requested = f"the constraints of table {self.link.parent.name!r}"
        if region is not None:
            requested += " and where"

        def accept(records: EncodedTable) -> Flags:
            is_kept = ~schema.broken(records)
            return is_kept if region is None else is_kept & region.contains(records)

        def explain(candidates: EncodedTable) -> str:
            return explain_rejection(rejecting_rules(schema, candidates))

        is_conditioned = region is not None or schema.has_rules
        root_model = self._root_model(region)
        batches = list(
            accepted_batches(
                root_model,
                n,
                random,
                accept=accept if is_conditioned else None,
                requested=requested,
                explain=explain,
                batch_rows=max(n, 1),
            )
        )
        # All records are one batch; there is none if n is 0.
        return batches[0] if batches else root_model.draw(0, random)

    def sample_roots_within(
        self, n: int, random: torch.Generator
    ) -> tuple[Rows, Tally]:
        """Samples up to `n` records of the first table from 20 n candidates at most.

        Returns:
            Records that keep to the table's constraints, encoded, and how many
            candidates were drawn and accepted.
        """
        schema = self.link.parent.schema
        if not schema.has_rules:
            tally = Tally(drawn=n, accepted=n, yielded=n)
            return self.sample_roots(n, random), tally
        return accepted_within(
            self._root_model(None),
            n,
            random,
            accept=lambda records: ~schema.broken(records),
            limit=_CANDIDATES_PER_PARENT * n,
        )

    def sample_children(
        self, parents: Rows, random: torch.Generator
    ) -> tuple[EncodedFamilies, int]:
        """Samples the children of parents, by the rules of the link.

        A family with a child that breaks a rule, or comes after the last date, is drawn
        again with as many children, 30 times at most. After that, children that break a
        rule are left out, and late ones come on the last date.

        Args:
            parents: Records of the parents' table, encoded.
            random: Public randomness.

        Returns:
            The families, and how many children were left out.
        """
        cells = parent_cells(self.chain.mixture, parents)
        families = self._draw_families(cells, parents, random)
        for _ in range(FAMILY_RETRIES):
            broken_parents = families.broken_parents()
            if not len(broken_parents):
                return families, 0
            redrawn = self._draw_families(
                cells[broken_parents],
                parents.rows(broken_parents),
                random,
                families.child_counts[broken_parents],
            )
            families = families.with_families(broken_parents, redrawn)
        breaks_rule = families.breaks_rule
        return families.select(~breaks_rule), int(breaks_rule.sum())

    def sample_one_child_each(self, n: int, random: torch.Generator) -> Rows:
        """Samples one child of each of `n` parents that has any, for a fit below.

        Args:
            n: Number of parents. If few candidates keep to their constraints there are
                fewer.
            random: Public randomness.

        Returns:
            The children, encoded, each drawn evenly from those of its parent.
        """
        parents = self._sample_parents(n, random)
        families, _ = self.sample_children(parents, random)
        child_counts = families.child_counts
        starts = np.cumsum(child_counts) - child_counts
        offsets = uniform(random, len(child_counts)) * child_counts
        indices = (starts + offsets).astype(np.int64)
        return families.children.rows(indices[child_counts > 0])

    def verdict_of_roots(self, random: torch.Generator) -> Verdict | None:
        """Judges the first table by how many of its records keep to its rules.

        None where at least half of them do, or there are no rules.
        """
        schema = self.link.parent.schema
        if not schema.has_rules:
            return None
        candidates = self._root_model(None).draw(_VERDICT_ROOTS, random)
        kept_share = float(1 - schema.broken(candidates).mean())
        return verdict_of_rules(
            kept_share, rejecting_rules(schema, candidates), self.link.parent.name
        )

    def verdict_of_families(self, random: torch.Generator) -> Verdict | None:
        """Judges the children by how many families keep to the rules of the link.

        None where at least half of the families do, or there are no rules. A relation
        between the tables that computes a value beyond the bounds counts as broken,
        and is not named: it was moved into them.
        """
        if not (self.link.has_rules or self.link.relations):
            return None
        parents = self._sample_parents(_VERDICT_FAMILIES, random)
        if not len(parents):
            return None
        cells = parent_cells(self.chain.mixture, parents)
        families = self._draw_families(cells, parents, random)
        broken_family_count = len(np.unique(families.parents[families.breaks_rule]))
        broken_rules = self.link.broken_rules(
            parents.rows(families.parents), families.children
        )
        return verdict_of_rules(
            1 - broken_family_count / len(parents),
            rejection_rates(broken_rules),
            f"{self.link.parent.name} with their {self.link.child.name}",
        )

    def has_roots_in(self, region: Region) -> bool:
        """Returns whether the model draws records of the first table in a region."""
        return self.chain.mixture.probability(self._transition_region(region)) > 0

    def tensors(self) -> dict[str, Array]:
        """Returns the arrays of the mixture, and all effects, by name.

        The effects on column i of the cells of column j are ``chain/i/j``.
        """
        effects = {
            f"chain/{model.column}/{predictor}": predictor_effects
            for model in self.chain.column_models
            for predictor, predictor_effects in zip(
                model.predictors, model.effects, strict=True
            )
        }
        return {**self.chain.mixture.tensors(), **effects}

    def to_json(self) -> dict[str, Any]:
        """Returns what `from_saved` needs beside the link and the tensors."""
        return self.chain.mixture.to_json()

    @classmethod
    def from_saved(
        cls,
        link: Link,
        tensors: Mapping[str, Array],
        description: Mapping[str, Any],
        parent_model: LinkModel | None,
    ) -> Self:
        """Rebuilds a model that was saved.

        Args:
            link: The two tables.
            tensors: What `tensors` returned.
            description: What `to_json` returned.
            parent_model: The model of the parents; None for those of the first table.

        Raises:
            LookupError, TypeError, ValueError: if these describe no model.
        """
        columns = LinkColumns.of(link)
        mixture = Mixture.from_saved(link.schema, tensors, description)
        column_models = []
        for column in (columns.number, *columns.made):
            predictors = columns.given(column)
            effects = tuple(
                np.asarray(tensors[f"chain/{column}/{predictor}"], dtype=np.float64)
                for predictor in predictors
            )
            # A child that exists has all columns that may not be missing.
            has_no_missing_cell = (
                column in columns.made and column not in columns.nullable
            )
            cell_count = mixture.sizes[column] - has_no_missing_cell
            _check_shapes(column, predictors, effects, mixture.sizes, cell_count)
            column_models.append(
                ColumnModel(column=column, predictors=predictors, effects=effects)
            )
        chain = Chain(
            columns=columns, mixture=mixture, column_models=tuple(column_models)
        )
        return cls(link=link, chain=chain, parent_model=parent_model)

    def _root_model(self, region: Region | None) -> _RootModel:
        """Returns the model of the first table, conditioned on a region if any."""
        mixture = self.chain.mixture
        if region is not None:
            mixture = mixture.given(self._transition_region(region))
        return _RootModel(mixture=mixture, layout=self.link.parent.schema.layout)

    def _transition_region(self, region: Region) -> Region:
        """Returns a region of parents as one of transitions.

        The parent's columns are the first ones there, numeric and coded ones alike.
        """
        return replace(region, layout=self.link.schema.layout)

    def _sample_parents(self, n: int, random: torch.Generator) -> Rows:
        """Samples at most `n` records of the parents' table from limited candidates."""
        if self.parent_model is not None:
            return self.parent_model.sample_one_child_each(n, random)
        parents, _ = self.sample_roots_within(n, random)
        return parents

    def _draw_families(
        self,
        cells: Cells,
        parents: Rows,
        random: torch.Generator,
        child_counts: Counts | None = None,
    ) -> EncodedFamilies:
        """Draws families once, whether they keep to the rules or not.

        Args:
            cells: The parents as `parent_cells` returns them, (parents, columns).
            parents: The parents, encoded.
            random: Public randomness.
            child_counts: Number of children of each, (parents,); None to draw it.
        """
        family_cells = self.chain.draw_families(
            cells, random, child_counts=child_counts
        )
        measured, is_late = self._encode_children(family_cells, parents, random)
        parents_of_children = parents.rows(family_cells.parents)
        children, is_outside = self.link.restore(parents_of_children, measured)
        breaks_rule = self._breaks_rule(parents_of_children, children)
        return EncodedFamilies(
            child_counts=family_cells.child_counts,
            children=children,
            breaks_rule=breaks_rule | is_outside,
            is_late=is_late,
        )

    def _encode_children(
        self, families: FamilyCells, parents: Rows, random: torch.Generator
    ) -> tuple[Rows, Flags]:
        """Draws values in the cells of children.

        Args:
            families: The children in cells.
            parents: Their parents, encoded.
            random: Public randomness.

        Returns:
            What is measured of the children, encoded, and which of them come after
            the last date, (children,).
        """
        layout = self.link.measured_layout
        link_columns = {
            column.name: link_column
            for column, link_column in zip(
                self.link.described, self.chain.columns.children, strict=True
            )
        }
        child_count = len(families.cells)
        numeric = np.empty((child_count, len(layout.numeric)))
        is_late = np.zeros(child_count, dtype=np.bool_)
        for index, column in enumerate(layout.numeric):
            if column.name == self.link.order_name:
                numeric[:, index], is_late = self._place_in_order(
                    families, parents, random
                )
            else:
                link_column = link_columns[column.name]
                within = self.chain.mixture.within[link_column]
                numeric[:, index] = within.draw(families.cells[:, link_column], random)

        codes = np.empty((child_count, len(layout.coded)), dtype=np.int32)
        for index, coded_column in enumerate(layout.coded):
            codes[:, index] = families.cells[:, link_columns[coded_column.name]]
        return Rows(numeric, codes), is_late

    def _place_in_order(
        self, families: FamilyCells, parents: Rows, random: torch.Generator
    ) -> tuple[Floats, Flags]:
        """Draws the column that orders children, such as the day of a visit.

        A first child comes a drawn distance after its origin, each other one a drawn
        gap after the child before.

        Args:
            families: The children in cells.
            parents: Their parents, encoded.
            random: Public randomness.

        Returns:
            Positions of the children in the column, (children,), and which of them lie
            beyond its upper bound, (children,); these are moved to the bound.
        """
        order = self.link.order
        assert order is not None
        distances = self._draw_distances(families, random)
        # Distances of a parent's children are added up: running sums over all
        # children, less the sum before the parent's first one.
        sums = np.cumsum(distances)
        starts = np.cumsum(families.child_counts) - families.child_counts
        sums_before = np.concatenate([[0.0], sums])[starts]
        ticks = sums - sums_before[families.parents]
        since = self.link.since
        if since is not None:
            ticks = ticks + self._origins(order, since, parents)[families.parents]

        if not order.stepped:
            return positions_at(order, ticks), ticks > order.upper - order.lower
        whole_ticks = np.rint(ticks)
        positions = positions_at(order, whole_ticks.astype(np.int64))
        return positions, whole_ticks > order.last_rank

    def _draw_distances(self, families: FamilyCells, random: torch.Generator) -> Floats:
        """Draws the distance of each child to its origin or the child before.

        Returns:
            Distances in ticks of the ordering column, (children,).
        """
        distances = np.zeros(len(families.cells))
        for column in self.chain.columns.times:
            within = self.chain.mixture.within[column]
            # The cell behind the others stands for missing.
            has_distance = families.cells[:, column] <= len(within.bins.cuts)
            positions = within.draw(families.cells[has_distance, column], random)
            distances[has_distance] = numbers_at(within.column, positions)
        return distances

    def _origins(
        self, order: NumericColumn, since: NumericColumn, parents: Rows
    ) -> Floats:
        """Returns where the distances of first children start, for each parent.

        Args:
            order: The column that orders children.
            since: The column of the parent that they are counted from.
            parents: The parents, encoded.

        Returns:
            Ticks of `order`, (parents,); 0 where `since` is missing.
        """
        since_index = self.link.parent.schema.layout.place(since.name)
        positions = parents.numeric[:, since_index]
        is_present = ~np.isnan(positions)
        origins = np.zeros(len(parents))
        origins[is_present] = origin_ticks(order, since, positions[is_present])
        return origins

    def _breaks_rule(self, parents: Rows, children: Rows) -> Flags:
        """Returns which children break a rule beside their own parent, (children,)."""
        if not self.link.has_rules or not len(children):
            return np.zeros(len(children), dtype=np.bool_)
        return self.link.broken(parents, children)


@dataclass(frozen=True)
class _RootModel:
    """The first table as a model of its own: the parent's columns of transitions."""

    mixture: Mixture  # of the transitions
    layout: Layout  # of the first table

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Draws `rows` records of the first table, encoded."""
        transitions = self.mixture.draw(rows, random)
        # The parent's columns are the first ones, numeric and coded ones alike.
        return EncodedTable(
            transitions.numeric[:, : len(self.layout.numeric)],
            transitions.codes[:, : len(self.layout.coded)],
        )


def parent_cells(mixture: Mixture, parents: Rows) -> Cells:
    """Returns rows of transitions of which only the parent is known.

    Args:
        mixture: Mixture of the link's transitions, which states the cells.
        parents: Records of the parents' table, encoded.

    Returns:
        Cells, (parents, columns of the link); 0 in all columns but the parent's.
    """
    cells = np.zeros((len(parents), len(mixture.sizes)), dtype=np.int32)
    for column, positions in enumerate(parents.numeric.T):
        cells[:, column] = mixture.within[column].bins.codes(positions)
    # Coded columns follow behind the numeric ones of the whole link.
    first_coded = len(mixture.within)
    cells[:, first_coded : first_coded + parents.codes.shape[1]] = parents.codes
    return cells


def _check_shapes(
    column: int,
    predictors: tuple[int, ...],
    effects: tuple[Floats, ...],
    sizes: tuple[int, ...],
    cell_count: int,
) -> None:
    """Requires that saved effects fit the cells of the columns.

    Args:
        column: The column that is drawn, for the message.
        predictors: What it depends on.
        effects: For each predictor, (its cells, cells that the column can have).
        sizes: Number of cells of each column of the link.
        cell_count: Number of cells that the column can have.

    Raises:
        ValueError: if a shape is another one.
    """
    shapes = [predictor_effects.shape for predictor_effects in effects]
    expected_shapes = [(sizes[predictor], cell_count) for predictor in predictors]
    if shapes != expected_shapes:
        raise ValueError(
            f"the effects on column {column} do not fit the cells of the others"
        )
