"""What every figure of either page keeps to, ours as a stranger's."""

from dataclasses import fields
from types import SimpleNamespace

import pytest

from noisegate.errors import OptionError
from noisegate_evaluate.reporting import figure as module
from noisegate_evaluate.reporting.figure import Figure, figures_of
from noisegate_evaluate.reporting.private import PrivatePage
from noisegate_evaluate.reporting.public import PublicPage

PAGES = {"public": PublicPage, "private": PrivatePage}
FIGURES = [(name, figure) for name in PAGES for figure in figures_of(name)]


@pytest.mark.parametrize("name", PAGES)
def test_each_figure_has_a_place_of_its_own_and_stands_there(name):
    places = [figure.place for figure in figures_of(name)]
    assert places == sorted(set(places))


@pytest.mark.parametrize(
    ("name", "figure"), FIGURES, ids=[f"{name}-{one.place}" for name, one in FIGURES]
)
def test_what_a_figure_needs_is_an_attribute_of_its_page(name, figure):
    attributes = {field.name for field in fields(PAGES[name])}
    assert set(figure.needs) <= attributes


def test_a_figure_without_what_it_needs_is_not_computed():
    figure = Figure(place=1, needs=("rows",), data=pytest.fail, template="")
    assert figure.render(SimpleNamespace(rows=()), {}) is None


def test_a_figure_with_nothing_to_show_is_left_out():
    figure = Figure(place=1, data=lambda page: None, template="<p>words</p>")
    assert figure.render(SimpleNamespace(), {}) is None


def test_a_figure_has_the_page_its_data_and_the_facts_of_all_figures():
    figure = Figure(
        place=1,
        data=lambda page: {"double": 2 * page.count},
        template="{{ page.count }} {{ double }} {{ digest }}",
    )
    assert figure.render(SimpleNamespace(count=4), {"digest": "abc"}) == "4 8 abc"


def test_every_value_is_escaped():
    figure = Figure(place=1, template="<p>{{ page.name }}</p>")
    shown = figure.render(SimpleNamespace(name="<script>"), {})
    assert shown == "<p>&lt;script&gt;</p>"


def test_a_figure_of_a_package_that_cannot_be_loaded_is_named(monkeypatch):
    def load():
        raise ImportError("no such module")

    point = SimpleNamespace(name="broken", load=load)
    monkeypatch.setattr(module, "extensions", lambda group: {"broken": point})
    with pytest.raises(OptionError, match="figure='broken' of an installed package"):
        figures_of("public")
