"""The pages of a model of linked tables."""

import re

import pyarrow.csv
import pytest

from noisegate import Gate, report
from noisegate.methods.linked import Linked
from noisegate.models.linked.model import LinkedModel

from ..metrics.test_links import SCHEMA, made
from .conftest import text


@pytest.fixture(scope="module")
def model():
    return Linked(fit_options={"steps": 60}).fit(
        Gate(made(), schema=SCHEMA, epsilon=10.0)
    )


def test_the_public_page_follows_from_the_model_alone(model, tmp_path):
    loaded = LinkedModel.load(model.save(tmp_path / "model"))
    pages = [
        report(each, out=tmp_path / name)
        for name, each in (("first", model), ("again", loaded))
    ]
    assert pages[0].public.read_bytes() == pages[1].public.read_bytes()
    shown = text(pages[0].public)
    assert "A synthetic copy of 2 linked tables: people, visits" in shown
    assert (
        "one record of the table people with all that belongs to it in visits" in shown
    )
    assert "one one" not in shown
    # The verdict and the page state one number of records.
    assert len(set(re.findall(r"about ([\d,]+) records", shown))) == 1
    assert "children of one parent" in shown
    assert "they weigh no more together than one would" in shown
    # Six visits have all, in the release and among the families that are drawn: one cell has nearly all of both.
    number = re.search(
        r"<h3>visits.number</h3>.*?</article>",
        pages[0].public.read_text("utf-8"),
        re.DOTALL,
    )[0]
    cells = re.findall(r"<td>(\d+) % ± [^<]*</td><td>(\d+) %</td>", number)
    assert (
        [place for place, cell in enumerate(cells) if int(cell[0]) > 70]
        == [place for place, cell in enumerate(cells) if int(cell[1]) > 70]
        != []
    )
    assert "visits.previous.state" not in re.findall(
        r"<h3>([^<]*)</h3>", pages[0].public.read_text("utf-8")
    )


def test_a_public_page_has_at_most_three_sheets(model, look, tmp_path):
    page = look(report(model, out=tmp_path / "pages").public).page
    sheets = page.pdf(prefer_css_page_size=True)
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", sheets)) <= 3


def test_with_real_tables_there_is_a_private_page(model, tmp_path):
    (tmp_path / "test").mkdir()
    for name, table in made(seed=1).items():
        pyarrow.csv.write_csv(table, tmp_path / "test" / f"{name}.csv")
    pages = report(model, out=tmp_path / "pages", test=tmp_path / "test", train=made())
    assert pages.evaluation.links["visits"].orphans == 0
    assert "People and their visits" in text(pages.private)
