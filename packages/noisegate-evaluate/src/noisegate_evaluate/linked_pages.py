"""The pages of a model of linked tables; see `noisegate_evaluate.pages`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.methods.registry import method_of

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.linked.links import Link
    from noisegate.linked.model import LinkedModel
    from noisegate_evaluate.reporting.private import Measured
    from noisegate_evaluate.reporting.public import ReleasedLink
    from noisegate_evaluate.utility.runner import Progress

_FAMILIES, _MOST_FAMILIES = 5_000, 20_000
_SEED = 0  # of what is drawn for a page, so that it is the same whenever it is made


@dataclass(frozen=True, kw_only=True)
class LinkedFound:
    """A model of linked tables, and what its release says of each link."""

    model: LinkedModel

    def page(self) -> str:
        """Returns the public page, HTML."""
        from noisegate_evaluate.reporting.public import LinkedSubject, linked_page

        model = self.model
        return linked_page(
            LinkedSubject(
                release=model.release,
                schema=model.schema,
                verdict=model.summary.verdict,
                distance=model.summary.discrepancy,
                links=self._links(),
            )
        )

    def measured(
        self, test: Any, train: Any, *, classifiers: str | None, progress: Progress | None, show_values: bool
    ) -> Measured:
        """Reads real tables, and returns what compares them with as many synthetic families, or 20,000."""
        from noisegate.data.frames import read_linked
        from noisegate_evaluate import evaluate_linked
        from noisegate_evaluate.reporting.measuring import compared_linked

        schema = self.model.schema
        held_out, used = read_linked(test, schema), None if train is None else read_linked(train, schema)
        made = self._tables(min(len((used or held_out)[schema.root.name]), _MOST_FAMILIES))
        how: Any = {"classifiers": classifiers or "three", "progress": progress, "seed": _SEED}
        report = evaluate_linked(made, held_out, schema, used, **how)
        return compared_linked(report, made, held_out, used, schema)

    def _tables(self, families: int) -> dict[str, pa.Table]:
        return replace(self.model, convert=None).sample(families, seed=_SEED)

    @cached_property
    def _drawn(self) -> dict[str, pa.Table]:
        return self._tables(_FAMILIES)

    def _links(self) -> list[ReleasedLink]:
        from noisegate_evaluate.reporting.public import ReleasedLink
        from noisegate_evaluate.reporting.released import Released

        read: Any = method_of(self.model.certificate)
        found = []
        for link in self.model.schema.links:
            bins, tables = read.released_link(self.model.release, link)
            released = Released(layout=link.schema.layout, bins=bins, tables=tables)
            found.append(ReleasedLink(link=link, released=released, drawn=self._transitions(link)))
        return found

    def _transitions(self, link: Link) -> Any:
        """Returns one transition of each synthetic family that has any, at random by its weight: as all count alike."""
        from noisegate.linked.source import LinkedSource
        from noisegate.schema import EncodedTable

        with LinkedSource(self._drawn, self.model.schema, key=bytes(16)) as source:
            parts = list(source.transitions(link))
        rows = EncodedTable.concatenate([part.rows for part in parts])
        weights = np.concatenate([part.weights for part in parts]).astype(np.float64)
        random = np.random.default_rng(_SEED)
        return rows.rows(random.choice(len(rows), size=_FAMILIES, p=weights / weights.sum()))
