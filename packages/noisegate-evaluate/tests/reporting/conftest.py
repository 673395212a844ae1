"""Pages of one small model with hostile names, and a browser to look at them: one of each for all tests."""

import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.few_trees import few_trees

from noisegate import Schema, report, synthesize
from noisegate.schema import Boolean, Categorical, Continuous, Date, Integer

HOSTILE = '"><img src=x onerror=alert(1)>'
SCRIPT = "<script>document.title='hacked'</script>"
SCHEMA = Schema(
    (
        Integer(name="age", lower=0, upper=99),
        Continuous(name=HOSTILE, lower=0.0, upper=1.0, missing=True),
        Categorical(name=SCRIPT, levels=("a & b", SCRIPT, HOSTILE, "{{ 7 * 7 }}")),
        Date(name="born", lower="2001-01-01", upper="2003-12-31"),
        Boolean(name="ill"),
    ),
    label="ill",
)
FEW = {"cells": 4, "fit_options": {"components": 8, "steps": 20}}


def rows(seed, count=400):
    draw = np.random.default_rng(seed)
    age = draw.integers(0, 100, count)
    return pa.table(
        {
            "age": age,
            HOSTILE: pa.array(draw.random(count), mask=draw.random(count) < 0.1),
            SCRIPT: np.array(SCHEMA.columns[2].levels)[draw.integers(0, 4, count)],
            "born": np.datetime64("2001-01-01") + draw.integers(0, 1000, count),
            "ill": draw.random(count) < age / 100,
        }
    )


def text(page):
    return " ".join(re.sub(r"<[^>]+>", " ", page.read_text("utf-8")).split())


@pytest.fixture(autouse=True)
def _few_trees():
    with few_trees():
        yield


@pytest.fixture(scope="session")
def model():
    return synthesize(rows(0), schema=SCHEMA, epsilon=2.0, **FEW)


@pytest.fixture(scope="session")
def pages(model, tmp_path_factory):
    with few_trees():
        return report(
            model, out=tmp_path_factory.mktemp("pages"), test=rows(1), train=rows(0)
        )


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """Pages of 60 columns of numbers, and what makes the private one again."""
    schema = Schema(
        [
            Continuous(name=f"column number {place}", lower=0.0, upper=1.0)
            for place in range(60)
        ]
    )
    table = pa.table(
        {name: np.random.default_rng(0).random(300) for name in schema.names}
    )
    made = synthesize(table, schema=schema, epsilon=1.0, **FEW)
    out = tmp_path_factory.mktemp("wide")
    with few_trees():
        pages = report(made, out=out, test=table)
    return SimpleNamespace(
        **vars(pages), again=lambda: report(made, out=out, test=table).private
    )


@pytest.fixture
def look(browser):
    """Opens a page at a width and in a colour scheme; what it asked for and complained of comes with it."""
    opened = []

    def at(path, width=1280, scheme="light"):
        shown = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        opened.append(shown)
        seen = SimpleNamespace(page=shown, requests=[], complaints=[])
        shown.on("request", lambda request: seen.requests.append(request.url))
        shown.on("console", lambda message: seen.complaints.append(message.text))
        shown.on("pageerror", lambda error: seen.complaints.append(str(error)))
        shown.goto(path.absolute().as_uri())
        shown.evaluate(
            "document.querySelectorAll('details').forEach(one => one.open = true)"
        )
        return seen

    yield at
    for one in opened:
        one.close()
