"""`noisegate start`: it asks, shows, and runs the other commands; without a terminal it takes answers, or refuses."""

import io
import shlex
import signal
import threading

import openpyxl
import pytest
from tests.shared.patience import PATIENCE

from noisegate import load
from noisegate.app.heading import heading_of
from noisegate.app.start.guided import Guide
from noisegate.app.start.page import Page
from noisegate.schema import Schema

from .conftest import said

ANSWERS = """\
data = "data.csv"
schema = "schema.toml"
records = 200
epsilon = 1
dataset = "clinic"
cap = 3
ledger = "ledger.db"
out = "model"
pages = "pages"
test = "none"
"""


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())


def test_without_a_terminal_it_names_what_is_not_answered_and_the_commands(desk, cli):
    ended = cli("start --schema schema.toml --epsilon 1")
    assert ended.code == 2
    assert "Not answered: data, records, dataset, out, test, pages, cap, yes" in said(
        ended.err
    )
    for command in (
        "schema init",
        "plan",
        "ledger register",
        "fit",
        "sample",
        "report",
        "verify",
    ):
        assert f"noisegate {command}" in said(ended.err)
    desk.as_before()


def test_title_and_purpose_are_given_to_the_fit_and_may_be_left_out(desk, cli):
    heading = 'title = "--A survey"\nowner = ""\npurpose = "Teaching"\n'
    (desk.folder / "answers.toml").write_text(ANSWERS + heading)
    ended = cli("start --answers answers.toml --yes")
    assert ended.code == 0, ended.err
    assert heading_of(load(desk.folder / "model").certificate) == {
        "title": "--A survey",
        "purpose": "Teaching",
    }
    assert "--owner" not in ended.err
    again = "start", "--answers", "answers.toml", "--yes", "--out", "other"
    assert "cannot be recorded" in said(cli(*again, "--title", "x" * 501).err)


def test_a_draft_with_gaps_stops_with_what_is_to_be_stated(desk, cli):
    desk.schema.unlink()
    (desk.folder / "codebook.csv").write_text(
        "name,type,min,max\nage,integer,18,90\nincome,number,,\n"
    )
    (desk.folder / "answers.toml").write_text(
        ANSWERS.replace('schema = "schema.toml"', 'dictionary = "codebook.csv"')
    )
    ended = cli("start --answers answers.toml --yes")
    assert ended.code == 2
    assert "'income' (continuous): lower and upper missing" in said(ended.err)
    assert "continue with: noisegate start --schema schema.toml" in said(ended.err)
    assert desk.account().spent == 0
    stated = (
        (desk.folder / "schema.toml").read_text().replace("# lower = ", "lower = 0")
    )
    assert Schema.loads(stated.replace("# upper = ", "upper = 100")).names == (
        "age",
        "income",
    )


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ('dataset = "new"\ncap = 0.5', 2, "cap: '0.5' is not from 1 to 1000"),
        ("epsilon = 3.5", 3, "of the cap of data set 'clinic', 3, about 3 is left"),
        (
            'out = "model"\npages = "pages"',
            2,
            "out: 'model-synthetic.csv' already exists",
        ),
    ],
)
def test_what_would_be_refused_later_is_refused_before_anything_is_registered(
    change, code, message, desk, cli
):
    if "out" in change:
        (desk.folder / "model-synthetic.csv").touch()
    keys = [line.partition(" ")[0] for line in change.splitlines()]
    lines = [
        line for line in ANSWERS.splitlines() if line.partition(" ")[0] not in keys
    ]
    (desk.folder / "answers.toml").write_text("\n".join([*lines, change]) + "\n")
    ended = cli("start --answers answers.toml --yes")
    assert ended.code == code, ended.err
    assert message in said(ended.err), ended.err
    assert desk.ledger.read_bytes() == desk.registered


def test_without_a_description_bounds_are_bought_with_a_part_of_epsilon(
    desk, cli, monkeypatch
):
    ran = []
    discovered = desk.schema.read_text()

    def run(guide, *command):
        ran.append(shlex.join(command))
        if "discover" in command and "--price" not in command:
            desk.schema.write_text(discovered)

    monkeypatch.setattr(Guide, "run", run)
    monkeypatch.setattr(Guide, "_verdict_of_fit", lambda guide: "")
    kinds = "age=integer,*=categorical"
    answers = ANSWERS.replace(
        'schema = "schema.toml"', f'discover = "{kinds}"\nlabel = "answer"'
    )
    (desk.folder / "answers.toml").write_text(answers.replace('"clinic"', '"new"'))
    desk.schema.unlink()
    assert "Not answered: bounds" in said(cli("start --answers answers.toml --yes").err)
    assert cli("start --answers answers.toml --bounds 0.3 --yes").code == 0
    asked = f"schema discover data.csv --epsilon 0.3 --records 200 --kinds '{kinds}' --label answer -o schema.toml"
    assert ran[:5] == [
        f"{asked} --price",
        "ledger register new --epsilon 3 --ledger ledger.db",
        f"{asked} --dataset new --ledger ledger.db",
        "plan --schema schema.toml --epsilon 0.7 --records 200",
        "fit data.csv --schema schema.toml --epsilon 0.7 --dataset new --ledger ledger.db --out model",
    ]


def test_stop_right_after_an_answer_is_heard_before_what_follows():
    page = Page()

    def both():
        with page._changed:  # who asks wakes up after both
            page.receive({"number": 1, "answer": "Yes, continue"})
            page.receive({"stop": True})

    # What runs in the background, as under nohup, starts with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.2, both).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            page.confirm("Spend epsilon")
            threading.Event().wait(PATIENCE)
    finally:
        signal.signal(signal.SIGINT, before)


def name_patients(desk):
    """Gives two records each to a patient, by a column in front."""
    lines = (desk.folder / "data.csv").read_text().splitlines()
    named = [f"patient,{lines[0]}"]
    named += [f"p{row // 2},{line}" for row, line in enumerate(lines[1:])]
    (desk.folder / "data.csv").write_text("\n".join(named) + "\n")


def test_the_guarantee_is_for_persons_where_a_column_names_them(desk, cli):
    name_patients(desk)
    persons = 'unit_column = "patient"\ncontributions = 2\n'
    of_persons = ANSWERS.replace("clinic", "persons")
    (desk.folder / "answers.toml").write_text(of_persons + persons)
    ended = cli("start --answers answers.toml --yes")
    assert ended.code == 0, ended.err
    assert '--unit "all records of one patient"' in ended.err.replace("'", '"')
    certificate = (desk.folder / "model" / "certificate.md").read_text()
    assert "all records of one patient" in certificate


def test_bounds_are_not_estimated_for_persons(desk, cli):
    desk.schema.unlink()
    answers = ANSWERS.replace('schema = "schema.toml"', 'discover = "*=integer"')
    persons = 'unit_column = "patient"\ncontributions = 2\nbounds = 0.2\n'
    (desk.folder / "answers.toml").write_text(answers + persons)
    ended = cli("start --answers answers.toml --yes")
    assert ended.code == 2
    assert "estimated for single records only" in said(ended.err)


def test_a_ledger_of_records_says_how_to_register_persons(desk, cli):
    name_patients(desk)
    persons = 'unit_column = "patient"\ncontributions = 2\n'
    (desk.folder / "answers.toml").write_text(ANSWERS + persons)
    ended = cli("start --answers answers.toml --yes")
    assert ended.code == 2
    assert (
        'noisegate ledger register NAME --epsilon E --unit "all records of one patient"'
        in said(ended.err)
    )


def test_nothing_is_registered_where_the_records_do_not_fit_the_schema(desk, cli):
    lines = (desk.folder / "data.csv").read_text().splitlines()
    (desk.folder / "data.csv").write_text("\n".join([lines[0], "?" * 9, *lines[1:]]))
    answers = ANSWERS.replace("clinic", "other").replace('"none"', "0.2")
    (desk.folder / "answers.toml").write_text(answers)
    ended = cli("start --answers answers.toml --yes")
    assert ended.code == 2
    assert "ledger register" not in ended.err
    assert "split" not in ended.err
    assert not (desk.folder / "data-train.csv").exists()


def test_a_workbook_is_split_and_fitted(desk, cli):
    workbook = openpyxl.Workbook()
    for line in (desk.folder / "data.csv").read_text().splitlines():
        workbook.active.append(line.split(","))
    workbook.save(desk.folder / "data.xlsx")
    answers = ANSWERS.replace("data.csv", "data.xlsx").replace('"none"', "0.2")
    (desk.folder / "answers.toml").write_text(answers)
    ended = cli("start --answers answers.toml --yes")
    assert ended.code == 0, ended.err
    assert "noisegate fit data-train.parquet" in said(ended.err)
    assert "--test data-test.parquet" in said(ended.err)
