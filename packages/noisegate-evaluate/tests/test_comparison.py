import io
import json

import numpy as np
import polars
import pyarrow as pa
from rich.console import Console
from tests.shared.few_trees import LOGISTIC

from noisegate.schema import Categorical, Continuous, Schema
from noisegate_evaluate import CAVEAT, evaluate_tables

COLUMNS = (
    Continuous(name="x [red]", lower=-4.0, upper=4.0),
    Categorical(name="y", levels=("no", "yes")),
)
SCHEMA = Schema(columns=COLUMNS, label="y")


def rows(seed, centre=0.0, count=200):
    generator = np.random.default_rng(seed)
    x = generator.normal(centre, 1.0, size=count)
    return pa.table(
        {
            "x [red]": x,
            "y": np.where(x + 0.3 * generator.normal(size=count) > centre, "yes", "no"),
        }
    )


def page(report, width=120):
    console = Console(file=io.StringIO(), width=width)
    console.print(report.render())
    return console.file.getvalue()


def flat(text):
    return " ".join(text.replace("│", " ").split())


def test_with_the_training_table_there_is_a_ceiling_and_a_floor():
    train = rows(0)
    test = rows(1)
    report = evaluate_tables(train, test, SCHEMA, train, classifiers=LOGISTIC)
    assert report.compared_with == "train"
    assert [entry.mean for entry in report.marginals.orders] == [0.0, 0.0]
    assert report.floor.order(1).mean > 0
    assert report.ceiling == report.downstream
    assert "real train (ceiling)" in page(report)
    assert "train vs test" in page(report)


def test_the_json_form_and_the_page_both_carry_the_caveat_and_the_figures():
    report = evaluate_tables(rows(0, centre=0.5), rows(1), SCHEMA, rows(2))
    form = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert form["caveat"] == CAVEAT
    assert "NOT covered" in CAVEAT
    assert "real data" in CAVEAT
    text = page(report)
    assert CAVEAT in flat(text)
    assert f"{form['downstream']['mean']['roc_auc']:.3f}" in text
    assert f"{form['marginals']['orders'][1]['mean_total_variation']:.4f}" in text
    assert f"{form['marginals_floor']['orders'][1]['mean_total_variation']:.4f}" in text


def test_frames_have_the_figures_of_the_json_form_in_whatever_library_there_is(
    monkeypatch,
):
    report = evaluate_tables(rows(0, centre=0.5), rows(1), SCHEMA, rows(2))
    form = report.to_json()
    frames = report.to_frames()
    (mean,) = frames["marginals"].query("compared == 'train with test' and order == 2")[
        "mean_total_variation"
    ]
    assert mean == form["marginals_floor"]["orders"][1]["mean_total_variation"]
    learnt = frames["scores"].query("trained_on == 'synthetic'")["roc_auc"]
    assert learnt.mean() == form["downstream"]["mean"]["roc_auc"]
    ((pair, *strong), *_), found = (
        form["metrics"]["associations"]["strong"],
        frames["metrics"],
    )
    named = found["figure"].str.startswith(f"strong.{pair}.") & (
        found["compared"] == "synthetic with real"
    )
    assert found[named]["value"].tolist() == strong
    for gone, kind in (
        (["pandas"], polars.DataFrame),
        (["pandas", "polars"], pa.Table),
    ):
        monkeypatch.setattr(
            "noisegate_evaluate.comparison.installed",
            lambda name, gone=gone: name not in gone,
        )
        assert all(
            type(one) is kind and len(one) == len(frames[name])
            for name, one in report.to_frames().items()
        )
