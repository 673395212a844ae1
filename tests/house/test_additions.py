"""A package adds a method, a metric, a question, a figure, a verb and a kind of column, and touches no file of ours."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {
    "noisegate_added/__init__.py": "",
    "noisegate_added/method.py": """
        from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod
        from noisegate.methods.registry import register
        from noisegate.queries.feature_map import Levels
        from noisegate.settings import settings
        from noisegate_papers.methods.table_or_image import TableOrImageGenerator

        @register("shares")
        @settings
        class Shares(TableOrImageGenerator, MeanEmbeddingMethod):
            def embeddings(self, schema):
                return {"levels": Embedding(Levels(columns=(0,), sizes=(2,)), share=1.0)}

            def fitting(self, release, *, device="auto", plan=None):
                maps = self.maps(release.schema)
                return self.fit_to_means(release, maps, self, seed=self.seed, device=device)
    """,
    "noisegate_added/metric.py": """
        from dataclasses import dataclass

        from noisegate_evaluate.metrics.result import MetricResult, metric

        @metric("rows-apart", kind="tables")
        @dataclass(frozen=True, kw_only=True)
        class RowsApart(MetricResult):
            rows: int

            @classmethod
            def measured(cls, synthetic, real, *, seed, **more):
                return cls(rows=abs(len(synthetic) - len(real)))

            def page(self, name):
                return {name: str(self.rows)}
    """,
    "noisegate_added/question.py": """
        from dataclasses import dataclass

        from noisegate.answers.estimates import Estimate
        from noisegate.answers.questions.question import Question, parse_call, register

        @register("records")
        @dataclass(frozen=True, kw_only=True)
        class Records(Question):
            forms = ("records()",)
            columns = ()

            @classmethod
            def parse(cls, text):
                return None if parse_call(text, "records") is None else cls(text=text)

            def answer(self, evidence, intervals):
                records = evidence.total.value
                return [Estimate(question=self.text, name="records", value=records)]
    """,
    "noisegate_added/figure.py": """
        from noisegate_evaluate.reporting.figure import Figure

        def count_coordinates(page):
            events = page.release.certificate.events
            return {"numbers": sum(event.coordinates for event in events)}

        NOISE = Figure(
            place=25,
            data=count_coordinates,
            template="<section><h2>{{ page.columns[0][0] }} &amp; noise</h2>"
            "<p>Noise was drawn {{ numbers }} times.</p></section>",
        )
        COUNTS = Figure(
            place=5,
            template="<p>{{ page.record_counts[1] }} are real.</p>",
        )
    """,
    "noisegate_added/verb.py": """
        def greet_command(name: str) -> None:
            \"\"\"Say hello to somebody.\"\"\"
            print(f"hello {name}")
    """,
    "noisegate_added/quarter.py": """
        import re
        from dataclasses import dataclass

        import pyarrow as pa

        from noisegate.errors import SchemaError
        from noisegate.schema.kinds.stepped import SteppedColumn
        from noisegate.schema.parsing import parse_distinct_texts

        def quarter_number(text):
            match = re.fullmatch("([0-9]{4})-Q([1-4])", text)
            return match and 4 * int(match[1]) + int(match[2]) - 1

        def checked_quarter(name, key, value):
            if not isinstance(value, str) or quarter_number(value) is None:
                raise SchemaError(f"column {name!r}: {key} = {value!r} is no quarter")
            return value

        @dataclass(frozen=True, kw_only=True)
        class Quarter(SteppedColumn):
            kind = "quarter"
            checked_value = staticmethod(checked_quarter)
            scale = "quarters"
            unit = "quarters since the year 0"
            units_text = "quarters"
            expected_value = "a quarter such as 2021-Q3"
            table_schema_type = "string"
            has_bounds_in_table_schema = False
            croissant_type = "sc:Text"

            def to_units(self, value):
                return quarter_number(value)

            def from_units(self, units):
                return f"{units // 4:04}-Q{units % 4 + 1}"

            def read_value(self, value):
                return self.checked_value(self.name, "a value", value)

            def brief_text(self, number):
                return self.from_units(round(number))

            def parse_unformatted(self, cells):
                return parse_distinct_texts(cells, quarter_number)

            def to_arrow(self, numbers, is_missing):
                pairs = zip(numbers.tolist(), is_missing.tolist(), strict=True)
                texts = [None if gone else self.from_units(n) for n, gone in pairs]
                return pa.array(texts, pa.string())
    """,
    "noisegate_added-1.0.dist-info/METADATA": """
        Metadata-Version: 2.1
        Name: noisegate-added
        Version: 1.0
    """,
    "noisegate_added-1.0.dist-info/entry_points.txt": """
        [noisegate.methods]
        shares = noisegate_added.method:Shares
        [noisegate.metrics]
        rows-apart = noisegate_added.metric:RowsApart
        [noisegate.questions]
        records = noisegate_added.question:Records
        [noisegate.columns]
        quarter = noisegate_added.quarter:Quarter
        [noisegate.public_figures]
        noise = noisegate_added.figure:NOISE
        [noisegate.private_figures]
        counts = noisegate_added.figure:COUNTS
        [noisegate.verbs]
        greet = noisegate_added.verb:greet_command
    """,
    "quarters.toml": """
        [columns.seen]
        kind = "quarter"
        lower = "2015-Q1"
        upper = "2024-Q4"
        missing = true
        atoms = ["2020-Q2"]
        [columns.due]
        kind = "quarter"
        lower = "2010-Q1"
        upper = "2030-Q4"
        [[constraints]]
        rule = "seen <= due"
    """,
    "schema.toml": """
        [columns.ill]
        kind = "boolean"
        [columns.old]
        kind = "boolean"
    """,
}
PROGRAM = """
import json, sys
from noisegate.app.cli.start import start
for line in json.loads(sys.argv[1]):
    sys.argv = ["noisegate", *line]
    try:
        start()
    except SystemExit as end:
        if end.code:
            raise
    print(end="\\0", flush=True)
"""


@pytest.fixture
def added(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip())
    (tmp_path / "data.csv").write_text("ill,old\n" + "true,false\nfalse,false\n" * 150)
    quarters = "2016-Q4,2018-Q1\n2020-Q2,2020-Q2\n,2019-Q3\n" * 200
    (tmp_path / "quarters.csv").write_text("seen,due\n" + quarters)

    def run(*lines):
        """Runs lines in one process; returns what each of them printed."""
        options = {
            "env": {**os.environ, "PYTHONPATH": str(tmp_path)},
            "cwd": tmp_path,
            "text": True,
        }
        command = [
            sys.executable,
            "-c",
            PROGRAM,
            json.dumps([list(map(str, line)) for line in lines]),
        ]
        return subprocess.run(
            command, capture_output=True, check=True, **options
        ).stdout.split("\0")[:-1]

    return run


def changed():
    return subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True
    ).stdout


def test_a_package_adds_a_method_a_metric_a_question_and_a_verb_and_touches_nothing_here(
    added,
):
    before = changed()
    fit = (
        "fit",
        "data.csv",
        "--schema",
        "schema.toml",
        "--epsilon",
        1,
        "--out",
        "model",
        "--json",
    )
    evaluate = (
        "evaluate",
        "--synthetic",
        "made.csv",
        "--test",
        "data.csv",
        "--schema",
        "schema.toml",
    )
    fitted, _, _, answers, listed, figures, page, verbs, greeting = added(
        (
            *fit,
            "--method",
            "shares",
            "--set",
            "hidden=[8]",
            "--set",
            'fit_options={"steps": 5}',
        ),
        ("sample", "model", "-n", 20, "-o", "made.csv"),
        (*fit[:-2], "counted", "--set", 'fit_options={"steps": 5}'),
        ("infer", "counted", "records()", "--json"),
        *[
            ("fit", "--help"),
            (*evaluate, "--json"),
            evaluate,
            ("--help",),
            ("greet", "you"),
        ],
    )
    assert json.loads(fitted)["certificate"]["method"] == "shares"
    assert "shares" in listed
    (answer,) = json.loads(answers)["answers"]
    assert answer["name"] == "records"
    assert abs(answer["value"] - 300) < 100
    assert json.loads(figures)["metrics"]["rows-apart"] == {"rows": 280}
    assert "rows-apart" in page
    assert "greet" in verbs
    assert greeting == "hello you\n"
    assert changed() == before


def test_a_package_adds_a_kind_of_column_and_touches_nothing_here(added, tmp_path):
    before = changed()
    schema = ("--schema", "quarters.toml")
    budget = ("--epsilon", 5, "--records", 600)
    card, planned, _, _, _, answers = added(
        ("schema", "check", "quarters.toml"),
        ("plan", *schema, *budget, "--json"),
        ("fit", "quarters.csv", *schema, *budget, "--out", "model"),
        ("sample", "model", "-n", 200, "--where", "seen>=2016-Q1", "-o", "made.csv"),
        ("sample", "model", "-n", 200, "--package", "handout"),
        ("infer", "model", "mean(due)", "--json"),
    )
    assert "2015-Q1 to 2024-Q4; atoms 2020-Q2" in card
    assert json.loads(planned)["epsilon"] == 5

    cells = (tmp_path / "made.csv").read_text("utf-8").replace('"', "").split()
    rows = [line.split(",") for line in cells[1:]]
    assert len(rows) == 200
    assert len({seen for seen, _ in rows}) > 1
    assert all("2016-Q1" <= seen <= due <= "2030-Q4" for seen, due in rows)

    (answer,) = json.loads(answers)["answers"]
    assert abs(answer["value"] - (4 * 2019 + 1)) < 4
    assert answer["notes"][-1] == "'due' is counted in quarters since the year 0"
    described = json.loads((tmp_path / "handout/datapackage.json").read_text("utf-8"))
    (resource,) = described["resources"]
    assert [field["type"] for field in resource["schema"]["fields"]] == ["string"] * 2
    page = (tmp_path / "model/public.html").read_text("utf-8")
    assert "2020-Q2" in page
    assert changed() == before


def test_a_bad_cell_of_a_kind_from_outside_is_named_and_not_shown(added, tmp_path):
    (tmp_path / "quarters.csv").write_text("seen,due\n2016-Q4,2018-Q1\n2016-Q4,4711\n")
    with pytest.raises(subprocess.CalledProcessError) as ended:
        fit = ("fit", "quarters.csv", "--schema", "quarters.toml", "--epsilon", 1)
        added((*fit, "--out", "model"))
    message = " ".join(ended.value.stderr.split())
    assert ended.value.returncode == 2
    assert "line 3, column 'due': expected a quarter such as 2021-Q3" in message
    assert "4711" not in message


def pages_of_a_model(added, folder):
    """Returns the public and the private page of a small model, as text."""
    fit = ("fit", "data.csv", "--schema", "schema.toml", "--epsilon", 1)
    added(
        (*fit, "--set", 'fit_options={"steps": 5}', "--out", "model"),
        ("report", "model", "--out", "pages", "--test", "data.csv"),
    )
    names = ("public", "private")
    return [(folder / f"pages/{name}.html").read_text("utf-8") for name in names]


def test_a_package_adds_a_figure_to_either_page_and_touches_nothing_here(
    added, tmp_path
):
    before = changed()
    public, private = pages_of_a_model(added, tmp_path)
    assert changed() == before
    assert re.search(r"<p>Noise was drawn \d+ times.</p>", public)
    assert "<p>300 are real.</p>" in private
    # Each stands at its place among ours.
    sections = ["<h2>Queries run", "noise</h2>", "<h2>Single columns</h2>"]
    places = [public.index(section) for section in sections]
    assert places == sorted(places)
    assert private.index("are real.") < private.index("<h2>Where they differ most")


# A file that the program finds in the folder of our figures, and nothing else.
FIGURE_OF_OURS = """
from noisegate_evaluate.reporting.figure import Figure

SIZE = Figure(
    place=35,
    data=lambda page: {"size": len(page.columns)},
    template="<p>{{ size }} columns, called {{ page.columns[0][0] }} and so on.</p>",
)
"""
ADD_FIGURE = """
import sys
import noisegate
from noisegate.schema import Boolean, Schema
from noisegate_evaluate.reporting import public_figures

public_figures.__path__.append(sys.argv[1])
schema = Schema([Boolean(name="<ill>"), Boolean(name="old")])
model = noisegate.synthesize(
    {"<ill>": [True, False] * 100, "old": [False, False] * 100},
    schema=schema,
    epsilon=1.0,
    fit_options={"steps": 5},
)
noisegate.report(model, out=sys.argv[1] + "/pages")
"""


def test_a_figure_of_ours_is_one_file_in_one_folder(tmp_path):
    (tmp_path / "size.py").write_text(FIGURE_OF_OURS)
    command = [sys.executable, "-c", ADD_FIGURE, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    page = (tmp_path / "pages/public.html").read_text("utf-8")
    # What a figure shows is escaped.
    assert "<p>2 columns, called &lt;ill&gt; and so on.</p>" in page


def test_two_packages_with_one_verb_are_told_and_not_traced(added, tmp_path):
    folder = tmp_path / "noisegate_clash-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: noisegate-clash\nVersion: 1.0\n"
    )
    (folder / "entry_points.txt").write_text(
        "[noisegate.verbs]\nfit = noisegate_added.verb:greet_command\n"
    )
    with pytest.raises(subprocess.CalledProcessError) as ended:
        added(("--help",))
    assert ended.value.returncode == 2
    assert "Traceback" not in ended.value.stderr
    assert "two installed packages add 'fit'" in " ".join(ended.value.stderr.split())
