"""A package adds a method, a metric, a question and a verb, and touches no file of this repository."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {
    "noisegate_added/__init__.py": "",
    "noisegate_added/method.py": """
        from noisegate.queries.feature_map import Levels
        from noisegate.methods.embedding import Embedding
        from noisegate.methods.registry import register
        from noisegate.settings import settings
        from noisegate_images.methods.matched import MatchedMethod

        @register("shares")
        @settings
        class Shares(MatchedMethod):
            def embeddings(self, schema):
                return {"levels": Embedding(Levels(columns=(0,), sizes=(2,)), share=1.0)}
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
    "noisegate_added/verb.py": """
        def greet_command(name: str) -> None:
            \"\"\"Say hello to somebody.\"\"\"
            print(f"hello {name}")
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
        [noisegate.verbs]
        greet = noisegate_added.verb:greet_command
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

    def run(*lines):
        """Runs lines in one process; returns what each of them printed."""
        told = {
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
            command, capture_output=True, check=True, **told
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
    assert (
        json.loads(fitted)["certificate"]["method"] == "shares" and "shares" in listed
    )
    (answer,) = json.loads(answers)["answers"]
    assert answer["name"] == "records" and abs(answer["value"] - 300) < 100
    assert (
        json.loads(figures)["metrics"]["rows-apart"] == {"rows": 280}
        and "rows-apart" in page
    )
    assert "greet" in verbs and greeting == "hello you\n"
    assert changed() == before


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
    assert ended.value.returncode == 2 and "Traceback" not in ended.value.stderr
    assert "two installed packages add 'fit'" in " ".join(ended.value.stderr.split())
