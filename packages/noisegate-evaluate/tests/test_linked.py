from io import StringIO

import pyarrow.csv
from rich.console import Console
from tests.shared.few_trees import LOGISTIC

import noisegate
from noisegate.schema import Schema
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate_evaluate import CAVEAT, evaluate_linked

from .metrics.test_links import SCHEMA, made

PEOPLE, VISITS = SCHEMA.tables
LABELLED = LinkedSchema(
    [
        LinkedTable(
            name="people", key="id", schema=Schema(PEOPLE.schema.columns, label="kind")
        ),
        VISITS,
    ]
)


def test_a_report_has_tables_links_scores_a_floor_and_a_verdict():
    report = evaluate_linked(
        made(seed=1), made(seed=2), LABELLED, made(seed=3), classifiers=LOGISTIC
    )
    told = report.to_json()
    frames = report.to_frames()
    assert set(frames["tables"]["table"]) == set(report.tables)
    counts = frames["links"].query(
        "compared == 'synthetic with real' and figure == 'orphans'"
    )
    assert counts["value"].tolist() == [link.orphans for link in report.links.values()]
    assert told["caveat"] == CAVEAT
    assert set(told["tables"]) == {"people", "visits"}
    assert told["links"]["visits"]["transitions"]["mean_total_variation"] < 0.06
    assert set(told["links"]["visits"]) == set(told["links_floor"]["visits"])
    # The kind is the state of the first visit, so the share of states nearly says it.
    assert told["downstream"]["mean"]["roc_auc"] > 0.85
    assert told["downstream_ceiling"]["mean"]["roc_auc"] > 0.85
    assert told["verdict"]["word"] in ("good", "usable")
    console = Console(width=200, record=True, file=StringIO())
    console.print(report.render())
    page = console.export_text()
    assert "visits and their parents" in page
    assert "child × next child" in page


def test_children_of_others_are_found_out_by_the_models():
    alone = evaluate_linked(
        made(kind=False, stay=0.5),
        made(seed=2),
        LABELLED,
        made(seed=3),
        classifiers=LOGISTIC,
    )
    assert alone.downstream.mean.accuracy < 0.7 < alone.ceiling.mean.accuracy
    assert alone.verdict.word in ("rough", "noise")
    assert any("successive visits" in reason for reason in alone.verdict.reasons)


def test_the_one_call_form_takes_mappings_folders_and_what_samples(tmp_path):
    LABELLED.to_toml(tmp_path / "linked.toml")
    options = {"schema": tmp_path / "linked.toml", "classifiers": LOGISTIC}
    for name, table in made(seed=1).items():
        pyarrow.csv.write_csv(table, tmp_path / f"{name}.csv")
    first = noisegate.evaluate(tmp_path, made(seed=2), **options)

    class Model:
        def sample(self, parents, seed):
            assert (parents, seed) == (400, 0)
            return made(seed=1)

    second = noisegate.evaluate(Model(), made(seed=2), **options)
    assert (
        first.to_json()
        == second.to_json()
        == evaluate_linked(
            made(seed=1), made(seed=2), LABELLED, classifiers=LOGISTIC
        ).to_json()
    )
