"""What an evaluation of linked tables found, as JSON values, as a page and as a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noisegate.evaluation.comparison import Report, figures_page
from noisegate.evaluation.metrics.links import LinkDistances
from noisegate.evaluation.metrics.marginals import MarginalReport
from noisegate.evaluation.verdicts import of_distance, of_marginals
from noisegate.verdict import Verdict

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkedReport(Report):
    """What synthetic linked tables are worth, measured on real ones.

    As a `Report` it is of the parents, each beside what its children come to: distances between these tables, and
    scores of models that predict the label of the first table from all of this.

    Attributes:
        tables: distances of each table by itself, by name; none of a table that has no rows on one side.
        links: distances of each link, by the name of the children's table.
        links_floor: the same between the real training and test tables: what sampling alone does. None without
            ``train``.
    """

    tables: Mapping[str, MarginalReport]
    links: Mapping[str, LinkDistances]
    links_floor: Mapping[str, LinkDistances] | None

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""
        several = {"tables": self.tables, "links": self.links, "links_floor": self.links_floor}
        told = {
            key: None if found is None else {name: one.to_json() for name, one in found.items()}
            for key, found in several.items()
        }
        return super().to_json() | told

    def _judged(self) -> Iterator[Verdict | None]:
        """Tables, links and what models learn; the sums over children are what these learn from."""
        for name, marginals in self.tables.items():
            yield of_marginals(marginals, name)
        for name, link in self.links.items():
            for distance, what in (
                (link.parent_child, f"parents and {name}"),
                (link.transitions, f"successive {name}"),
            ):
                if distance is not None:
                    yield of_distance(distance, f"a pair of columns of {what}")
        yield from (part for part in super()._judged() if part and "score" in part.figures)

    def _more_pages(self) -> Iterator[Table]:
        headings = [f">synthetic vs {self.compared_with}", *([">train vs test"] if self.links_floor else []), "largest"]
        for name, link in self.links.items():
            floor = dict(self.links_floor[name].lines()) if self.links_floor else {}
            page = figures_page(f"{name} and their parents (0 = the same)", "figure", *headings)
            for what, (figure, largest) in link.lines():
                page.add_row(what, figure, *([floor[what][0]] if floor else []), largest)
            yield page
        yield from super()._more_pages()
