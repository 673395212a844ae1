"""What results show of themselves: at most ten lines in a terminal, and HTML in which no name does anything."""

from html.parser import HTMLParser

import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, integer

import noisegate
from noisegate import Budget, Gate, Pairwise, Schema
from noisegate.cards import MOST_LINES
from noisegate.errors import installed
from noisegate.methods.registry import make_for
from noisegate.schema import pixel_schema
from noisegate.schema.constraints import Comparison

NASTY = '<script>alert("x")</script>'
SCHEMA = Schema(
    (
        *(integer(f"number {index}", 0, 99) for index in range(30)),
        categorical('"><img src=x onerror=y>', (NASTY, "b")),
        boolean(NASTY),
    ),
    label=NASTY,
    constraints=(Comparison(left="number 0", relation="<=", right="number 1"),),
)
KEPT = {"div", "strong", "table", "tr", "th", "td", "p", "details", "summary"}


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = set()
        self.attributes = set()
        self.open = []

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def results_by_name():
    rows = 60
    columns = {f"number {index}": [i % 50 for i in range(rows)] for index in range(30)}
    table = pa.table(
        columns
        | {SCHEMA.names[30]: ["b"] * rows, NASTY: [i % 2 == 0 for i in range(rows)]}
    )
    model = Pairwise(cells=4, fit_options={"components": 4, "steps": 5}).fit(
        table, schema=SCHEMA, epsilon=2.0, unit=f"{NASTY} patient"
    )
    return table, model


@pytest.fixture(scope="module")
def results():
    table, model = results_by_name()
    found = {
        "schema": SCHEMA,
        "images": pixel_schema(28, 28, labels=range(10)),
        "synthesizer": model,
        "certificate": model.certificate,
        "release": model.release,
        "plan": Pairwise().plan(SCHEMA, Budget(epsilon=1.0)),
        "report": noisegate.evaluate(model, table, train=table),
    }
    small = Schema(SCHEMA.columns[:2] + SCHEMA.columns[-1:], label=NASTY)
    if installed("torch"):
        method = make_for(
            "dp-llm",
            small,
            {"steps": 5, "sampling_probability": 0.1, "projection": None},
        )
        gate = Gate(
            table,
            schema=Schema(small.columns, label=NASTY, ignore=SCHEMA.names[2:-1]),
            epsilon=1.0,
            records=60,
        )
        found["steps"] = method.plan(gate.schema, gate.budget)
        found["classifier"] = method.fit(gate)
    return found


NAMES = [
    "schema",
    "images",
    "synthesizer",
    "certificate",
    "release",
    "plan",
    "report",
    "steps",
    "classifier",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_result_takes_ten_lines_at_most_and_is_inert_html(results, name):
    if name not in results:
        pytest.skip("torch is not installed")
    lines = repr(results[name]).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 120
    page = results[name]._repr_html_()
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    assert tags.seen <= KEPT
    assert tags.attributes <= {"style"}
    assert "url(" not in page
    assert "http" not in page


def test_what_matters_is_shown(results):
    shown = {name: repr(result) for name, result in results.items()}
    assert "32 columns" in shown["schema"]
    assert "integer, 0 to 99" in shown["schema"]
    assert "... and 24 more" in shown["schema"]
    assert "28 x 28 x 1" in shown["images"]
    assert "verdict" in shown["synthesizer"]
    assert "(2, 1e-05)-differential privacy, add-remove" in shown["synthesizer"]
    assert "not recorded" in shown["certificate"]
    assert "epsilon = 1" in shown["plan"]
    assert "noise multiplier" in shown["plan"]
    assert "guarantee" in shown["report"].splitlines()[-1]
    pages = {name: result._repr_html_() for name, result in results.items()}
    assert "number 29" in pages["schema"]
    assert "&lt;script&gt;" in pages["synthesizer"]
    assert "number 0 &lt;= number 1" in pages["schema"]
    assert "sensitivity (grid)" in pages["certificate"]
    assert "ROC-AUC" in pages["report"]
    assert "largest" in pages["report"]
