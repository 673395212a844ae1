"""What a figure of a page is, and how a page gets its figures."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias

from markupsafe import Markup

from noisegate.errors import OptionError
from noisegate.registry import extensions
from noisegate_evaluate.reporting.charts import render_fragment, render_page

PageName: TypeAlias = Literal["public", "private"]
Data: TypeAlias = Mapping[str, Any]
"""What the template of a figure shows, by name."""


def no_data(page: Any) -> Data:
    """Returns no data: the template shows what the page has."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A section of a page.

    Attributes:
        place: Where it stands: sections are in ascending order.
        template: Its words, a fragment of HTML for Jinja. It has `page`, a `PublicPage`
            or a `PrivatePage`; on the public page also what
            `noisegate_evaluate.reporting.promise.promised` returns; and the data, by
            name. Every value is escaped. It may use the macros of `parts.html`.
        data: Returns what the template shows of a page, by name; None where there is
            nothing to show.
        needs: Attributes of the page. The figure is shown where any of them is not
            empty; always, where none is named.
    """

    place: int
    template: str
    data: Callable[[Any], Data | None] = no_data
    needs: Sequence[str] = ()

    def render(self, page: Any, facts: Data) -> Markup | None:
        """Returns the section, HTML; None where there is nothing to show.

        Args:
            page: What the page is about.
            facts: What all templates of the page have, by name.
        """
        if self.needs and not any(getattr(page, name) for name in self.needs):
            return None
        data = self.data(page)
        if data is None:
            return None
        return render_fragment(self.template, page=page, **facts, **data)


def figures_of(name: PageName) -> list[Figure]:
    """Returns the figures of a page in their order: ours, and of installed packages.

    Raises:
        OptionError: if a figure of an installed package cannot be loaded.
    """
    folder = import_module(f"{__package__}.{name}_figures")
    figures: list[Figure] = []
    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        members = vars(import_module(module.name)).values()
        figures += [member for member in members if isinstance(member, Figure)]
    for point in extensions(f"noisegate.{name}_figures").values():
        try:
            figures.append(point.load())
        except (ImportError, AttributeError) as error:
            raise OptionError(
                f"figure={point.name!r} of an installed package cannot be loaded: "
                f"{error}."
            ) from None
    return sorted(figures, key=lambda figure: figure.place)


def render_with_figures(name: PageName, page: Any, **facts: Any) -> str:
    """Returns a page with those of its figures that have something to show, HTML.

    Args:
        name: The page.
        page: What it is about.
        facts: What its template and those of all figures have, by name.
    """
    sections = [figure.render(page, facts) for figure in figures_of(name)]
    return render_page(
        f"{name}.html",
        page=page,
        figures=[section for section in sections if section is not None],
        **facts,
    )
