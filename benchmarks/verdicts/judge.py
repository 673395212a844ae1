"""One run: the words of plan, fit and evaluate for a table at one ε, with all that they rest on.

Every run has a folder, with all that its words follow from:

    TABLES/PACKAGE/NAME/          schema.toml, train.csv, test.csv: the same for all runs of a table
        epsilon-E-seed-S/model/   the model with its release
        epsilon-E-seed-S/fit.npz  the state of the fit
        epsilon-E-seed-S/evaluation.json
"""

from __future__ import annotations

import csv
import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from corpus import Table, open_text

import noisegate
from noisegate import Budget, Gate, Schema, Verdict
from noisegate.answers.design import COUNTS
from noisegate.app.drafts.draft import Draft, draft
from noisegate.errors import SchemaError
from noisegate.methods.forecast import forecast_of, record_count
from noisegate.models.tables.associations import fit_verdicts
from noisegate.schema.schema import read_schema
from noisegate.sources.frames import read_table
from noisegate_evaluate import Report, evaluate_tables
from noisegate_evaluate.judging import (
    of_analyses,
    of_marginals,
    of_models,
    of_number,
    of_rules,
)

_TRAIN_SHARE = 0.7
# The division into training and test records is the same in all runs of a table.
_SPLIT_SEED = 0
_MIN_CLASSES = 2
_MAX_CLASSES = 10


@dataclass
class Stopwatch:
    """Measures the stages of a run.

    Attributes:
        seconds: Seconds of each stage that has ended, by name.
        stage: The stage that is running; the failed one after an error.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    stage: str = ""

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Measures the time inside the block."""
        self.stage = stage
        start = time.monotonic()
        yield
        self.seconds[stage] = round(time.monotonic() - start, 2)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A table that is divided and described, in a folder.

    Attributes:
        schema: Its drafted schema.
        train: CSV file of the training records.
        test: CSV file of the test records.
    """

    schema: Schema
    train: Path
    test: Path


def prepare(table: Table, folder: Path) -> Prepared:
    """Drafts the schema of a table and divides its records, unless both are in the folder already.

    The schema is drafted from the whole table, as from a public file. Its label is the last column with 2 to 10 levels;
    without such a column there is none.

    Raises:
        UserError: if no schema can be drafted.
    """
    schema_path = folder / "schema.toml"
    prepared_paths = {"train": folder / "train.csv", "test": folder / "test.csv"}
    if not schema_path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        header, *records = table.rows()
        whole_path = folder / "whole.csv"
        _write_csv(whole_path, header, records)
        drafted = _draft_with_label(whole_path)
        order = np.random.default_rng(_SPLIT_SEED).permutation(len(records))
        n_train = round(_TRAIN_SHARE * len(records))
        for part, indices in (("train", order[:n_train]), ("test", order[n_train:])):
            _write_csv(
                prepared_paths[part], header, [records[index] for index in indices]
            )
        whole_path.unlink()
        schema_path.write_text(drafted.toml(), encoding="utf-8")
    schema = read_schema(schema_path)
    assert isinstance(schema, Schema)
    return Prepared(schema=schema, **prepared_paths)


def _write_csv(path: Path, header: list[str], records: list[list[str]]) -> None:
    with open_text(path, "w") as file:
        csv.writer(file).writerows([header, *records])


def _draft_with_label(path: Path) -> Draft:
    """Drafts a schema with the last column of 2 to 10 levels as its label, where it can be one."""
    unlabelled = draft(path)
    candidates = [
        column.name
        for column in unlabelled.schema.columns
        if _MIN_CLASSES <= len(getattr(column, "levels", ())) <= _MAX_CLASSES
    ]
    if not candidates:
        return unlabelled
    try:
        return draft(path, label=candidates[-1])
    except SchemaError:
        return unlabelled


def judge(table: Table, epsilon: float, seed: int, models: Path) -> dict[str, Any]:
    """Runs plan, fit and evaluate on a table, as a user does.

    Args:
        table: The table.
        epsilon: ε of the guarantee.
        seed: Seed of fit and sampling; the private noise has none.
        models: Folder for the folders of runs.

    Returns:
        The run as JSON values. A refusal is a result: "error" has its stage, type and message.
    """
    run: dict[str, Any] = {"table": table.name, "epsilon": epsilon, "seed": seed}
    stopwatch = Stopwatch()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run |= _judge(table, epsilon, seed, models, stopwatch)
        texts = [str(warning.message) for warning in caught]
        run["warnings"] = sorted({text[:300] for text in texts})
    # Whatever stops a run is its result.
    except Exception as error:
        run["error"] = {
            "stage": stopwatch.stage,
            "type": type(error).__name__,
            "message": str(error)[:2000],
        }
    run["seconds"] = stopwatch.seconds
    return run


def _judge(
    table: Table, epsilon: float, seed: int, models: Path, stopwatch: Stopwatch
) -> dict[str, Any]:
    """Returns the figures of a run, whose stages the stopwatch measures."""
    table_folder = models / table.name
    run_folder = table_folder / run_key(epsilon, seed)
    run_folder.mkdir(parents=True, exist_ok=True)
    with stopwatch.measure("draft"):
        prepared = prepare(table, table_folder)
        schema = prepared.schema
    with stopwatch.measure("read"):
        train = read_table(prepared.train, schema)
        test = read_table(prepared.test, schema)
    with stopwatch.measure("plan"):
        planned = noisegate.plan(schema, epsilon=epsilon, records=train.num_rows)
        method: Any = planned.method
    with stopwatch.measure("fit"):
        release = method.query(
            Gate(train, schema=schema, epsilon=epsilon), planned.plan
        )
        fitting = method.fitting(release, plan=planned.plan)
        fitting.run()
        synthesizer = method.synthesizer(release, fitting)
    with stopwatch.measure("save"):
        if not (run_folder / "model").exists():
            synthesizer.save(run_folder / "model")
            np.savez(run_folder / "fit.npz", **fitting.state_dict())
    with stopwatch.measure("sample"):
        synthetic = synthesizer.sample(train.num_rows, seed=seed)
    with stopwatch.measure("evaluate"):
        report = evaluate_tables(synthetic, test, schema, train)
    evaluation = report.to_json()
    (run_folder / "evaluation.json").write_text(json.dumps(evaluation))
    forecast = method.forecast(schema, Budget(epsilon=epsilon), train.num_rows)
    label = schema.label_column
    return {
        "records": train.num_rows,
        "columns": len(schema.columns),
        "numeric_columns": sum(column.numeric for column in schema.columns),
        "drafted_columns": len(schema.names),
        "label": None if label is None else label.name,
        "classes": None if label is None else len(getattr(label, "levels", ())),
        "has_rules": schema.has_rules,
        "method": method.name,
        "noise": forecast.noise,
        "plan": verdict_json(planned.verdict),
        "fit": verdict_json(synthesizer.verdict),
        "fit_parts": fit_parts(method, release, fitting),
        "evaluate": verdict_json(report.verdict),
        "evaluate_parts": evaluation_parts(report),
        "figures": _figures_of(report),
    }


def run_key(epsilon: float, seed: int) -> str:
    """Returns the name of the folder of a run, below that of its table."""
    return f"epsilon-{epsilon:g}-seed-{seed}"


def fit_parts(method: Any, release: Any, fitting: Any) -> list[dict[str, Any]]:
    """Returns what each question says that the verdict of a fit consists of."""
    counts = release.values[COUNTS]
    expected = forecast_of(
        fitting.design, release, record_count(release, float(counts.sum()))
    )
    parts = [
        {
            "question": "forecast",
            "word": expected.word,
            "singles": expected.singles,
            "pairs": expected.pairs,
            "noise": expected.noise,
        },
        {"question": "distance", "word": None, "distance": fitting.discrepancy},
    ]
    for verdict in fit_verdicts(fitting):
        part = verdict_json(verdict)
        parts.append({"question": _fit_question(verdict), **part})
    return parts


def _fit_question(verdict: Verdict) -> str:
    """Names the question that a part of a fit's verdict answers."""
    for figure, question in (
        ("pairs_measured", "associations"),
        ("coefficients_kept", "coefficients"),
        ("too_close", "close columns"),
    ):
        if figure in verdict.figures:
            return question
    return "unresolved cell"


def evaluation_parts(report: Report) -> list[dict[str, Any]]:
    """Returns what each question says that the verdict of an evaluation consists of."""
    verdicts = [
        of_marginals(report.marginals),
        *of_number(report.marginals),
        *of_analyses(report.metrics),
        *of_rules(report.metrics),
        of_models("ROC-AUC", "roc_auc", 0.5, report.downstream, report.ceiling),
        of_models("R²", "r2", 0.0, report.regression, report.regression_ceiling),
    ]
    return [
        {"question": _evaluation_question(verdict), **verdict_json(verdict)}
        for verdict in verdicts
        if verdict is not None
    ]


def _evaluation_question(verdict: Verdict) -> str:
    """Names the question that a part of an evaluation's verdict answers."""
    for figure, question in (
        ("out_of_place_in_pairs", "pairs"),
        ("out_of_place_in_singles", "pairs"),
        ("associations_kept", "associations"),
        ("coefficients_kept", "coefficients"),
        ("tail_error", "tails"),
        ("rank_error", "quantiles"),
        ("score", "learning"),
    ):
        if figure in verdict.figures:
            return question
    return "rules" if "is broken in" in verdict.reasons[0] else "other"


def _figures_of(report: Report) -> dict[str, Any]:
    """Returns the figures of an evaluation that its verdict does not state."""
    figures: dict[str, Any] = {}
    for name, marginals in (("real", report.floor), ("synthetic", report.marginals)):
        if marginals is not None:
            figures[f"marginals_{name}"] = [
                [entry.mean, entry.sampling, entry.beyond_sampling, entry.largest]
                for entry in marginals.orders[:2]
            ]
    for name, results in (
        ("synthetic", report.metrics),
        ("real", report.metrics_floor),
    ):
        for metric, result in results.items():
            if result is not None and metric != "rules":
                content: Any = result.to_json()
                figures[f"{metric}_{name}"] = _shortened(content)
    return figures


def _shortened(content: dict[str, Any]) -> dict[str, Any]:
    """Returns figures of a metric without long lists; `evaluation.json` has them all."""
    return {
        name: len(value)
        if isinstance(value, list | tuple) and len(value) > 2
        else value
        for name, value in content.items()
    }


def verdict_json(verdict: Verdict | None) -> dict[str, Any]:
    """Returns a verdict as JSON values, with the first of many names in its figures."""
    if verdict is None:
        return {"word": None, "reasons": [], "cures": [], "figures": {}}
    figures = {
        name: dict(list(value.items())[:20]) if isinstance(value, dict) else value
        for name, value in verdict.figures.items()
    }
    return {
        "word": verdict.word,
        "reasons": list(verdict.reasons),
        "cures": list(verdict.cures),
        "figures": figures,
    }
