"""Methods that train on gradients: the classifier from fit to prediction, and trainings that are interrupted."""

import json
from operator import attrgetter

import pyarrow.csv
import pytest

from noisegate.app.runs.folder import ANSWERS_FILE, RUN_FILE, Run
from noisegate.app.runs.work import _CostSoFar
from noisegate.errors import ModelError, OptionError
from noisegate.gate.session import Session
from noisegate.ledger.ledger import Ledger
from noisegate.methods.gradient import JOURNAL_FILE, STATE_FILE
from noisegate.privacy.plan import Budget
from noisegate.schema import Schema
from noisegate_papers.methods.dp_llm import DPLLM
from noisegate_papers.models.locally_linear import LocallyLinear

from .conftest import CANARY, HEADER, SCHEMA, said, states

STEPS = 6
LLM = f"--method dp-llm --records 200 --set steps={STEPS} --set maps=2 --set sampling_probability=0.25".split()


def command(desk, *more, epsilon="2"):
    base = [
        "fit",
        desk.data,
        "--schema",
        desk.schema,
        "--epsilon",
        epsilon,
        "--out",
        desk.out,
        *LLM,
    ]
    return [*base, "--dataset", "clinic", "--ledger", desk.ledger, *more]


def resume(desk, *more):
    return ["fit", "--resume", desk.data, "--out", desk.out, *more]


def test_from_fit_to_prediction(desk, cli):
    ended = cli(*command(desk))
    assert ended.code == 0, ended.err
    for words in ("6 noisy sums of gradients", "noisegate explain", "epsilon = 2"):
        assert words in said(ended.out)
    assert not desk.out.with_name("model.partial").exists() and states(desk.ledger) == (
        0,
        1,
        0,
    )
    assert cli("verify", desk.out, "--json").json["recomputed_epsilon"] <= 2
    shown = cli("explain", desk.out)
    assert (shown.code, shown.err) == (0, "")
    for words in (
        "What no depends on",
        "What yes depends on",
        "age",
        "job = nurse",
        "income is missing",
    ):
        assert words in shown.out
    predicted = cli("predict", desk.out, desk.data, "-o", "predicted.csv")
    assert "Wrote 200 predictions" in predicted.err
    table = pyarrow.csv.read_csv("predicted.csv").to_pydict()
    assert list(table) == ["answer", "probability of no", "probability of yes"]
    for label, no, yes in zip(*table.values(), strict=True):
        assert no + yes == pytest.approx(1) and label == ("yes" if yes > no else "no")
    ended = cli(*command(desk, "--out", "again", "--json", epsilon="2.9"))
    assert ended.code == 3  # beyond the cap of 3
    assert (
        "clinic" in ended.json["error"] and not (desk.folder / "again.partial").exists()
    )


def test_an_interrupted_training_goes_on_with_the_records_and_pays_once(
    desk, cli, ctrl_c
):
    taken = ctrl_c(Session, "step", 3, attrgetter("remaining_steps"))
    ended = cli(*command(desk))
    assert (
        ended.code == 130
        and "Stopped after 3 of 6 steps, which cost epsilon = 1." in said(ended.err)
    )
    assert "noisegate fit --resume" in ended.err and states(desk.ledger) == (1, 0, 0)
    kept = sorted(path.name for path in desk.out.with_name("model.partial").iterdir())
    assert kept == sorted(["room", RUN_FILE, STATE_FILE, JOURNAL_FILE, ANSWERS_FILE])
    before = desk.listing()
    # With other records or options, as another fit: refused, and nothing changes.
    other = desk.folder / "other.toml"
    other.write_text(SCHEMA.replace("upper = 90", "upper = 91"))
    other_schema = (*resume(desk), "--schema", other)
    for arguments, words in (
        (
            ["fit", "--resume", other, "--out", desk.out],
            "DATA, the private records, is not what the run began with",
        ),
        (
            resume(desk, "--dataset", "hospital"),
            "--dataset hospital: the run began with clinic",
        ),
        (resume(desk, "--epsilon", "3"), "--epsilon 3.0: the run began with 2.0"),
        (
            resume(desk, "--method", "pairwise"),
            "--method pairwise: the run began with dp-llm",
        ),
        (resume(desk, "--set", "steps=7"), "--set steps=7: the run began with 6"),
        (resume(desk, "--seed", "1"), "--seed 1: the run began with 0"),
        (
            resume(desk, "--unit-column", "age"),
            "--unit-column age: the run began with None",
        ),
        (other_schema, "differs from the schema that the run began with"),
        (resume(desk, "--ledger", desk.folder / "empty.db"), "empty.db"),
        (command(desk), "noisegate fit --resume --out"),
    ):
        refused = cli(*arguments)
        assert refused.code == 2, (arguments, refused.err)
        assert words in said(refused.err), (words, refused.err)
    (desk.folder / "empty.db").unlink(missing_ok=True)
    other.unlink()
    assert (
        desk.listing() == before
        and "empty.db" not in (desk.folder / "model.partial" / RUN_FILE).read_text()
    )
    # The other ledger was found out at the gate, by a fourth step that did not begin.
    assert taken == [6, 5, 4, 3]
    # From the records that it began with: the remaining steps, the same reservation.
    ended = cli("fit", "--resume", "--out", desk.out)
    assert ended.code == 0, ended.err
    assert "after 3 steps: nothing more is spent" in said(ended.err) and taken == [
        6,
        5,
        4,
        3,
        3,
        2,
        1,
    ]
    entries = Ledger(desk.ledger).history("clinic")
    assert [entry.kind for entry in entries] == [
        "register",
        "reserve",
        "confirm",
        "commit",
    ]
    assert (
        cli("verify", desk.out).code == 0
        and not desk.out.with_name("model.partial").exists()
    )


def test_records_that_do_not_fit_spend_nothing_and_stop_no_training(desk, cli, ctrl_c):
    good, before = desk.data.read_text(), desk.listing()
    desk.data.write_text(f"{HEADER}\n30,50.0,nurse,no\n30,50.0,{CANARY},no\n")
    ended = cli(*command(desk))
    assert ended.code == 2 and "'job'" in ended.err
    assert states(desk.ledger) == (0, 0, 1) and desk.listing() == before
    # The same while a training is taken up: it can be taken up again.
    desk.data.write_text(good)
    taken = ctrl_c(Session, "step", 2, attrgetter("remaining_steps"))
    assert cli(*command(desk)).code == 130
    desk.data.write_text(f"{HEADER}\n30,50.0,{CANARY},no\n")
    ended = cli(*resume(desk))
    assert ended.code == 2 and CANARY not in ended.err
    desk.data.write_text(good)
    ended = cli(*resume(desk, "--json"))
    assert ended.code == 0, ended.err
    assert ended.json["fit"] is None and taken == [6, 5, 4, 4, 3, 2, 1]
    assert states(desk.ledger) == (0, 1, 1)


def test_a_classifier_that_could_not_be_written_is_written_later_without_the_records(
    desk, cli, monkeypatch
):
    save = LocallyLinear.save

    def full(*_):
        raise ModelError("the disk is full")

    monkeypatch.setattr(LocallyLinear, "save", full)
    ended = cli(*command(desk))
    assert ended.code == 2 and "the release is kept; continue with" in said(ended.err)
    assert states(desk.ledger) == (0, 1, 0)
    kept = {path.name for path in desk.out.with_name("model.partial").iterdir()}
    assert kept == {"certificate.json", "release.safetensors"}
    monkeypatch.setattr(LocallyLinear, "save", save)
    desk.data.unlink()
    ended = cli("fit", "--resume", "--out", desk.out)
    assert ended.code == 0, ended.err
    assert (
        "nothing is read or spent" in said(ended.err)
        and cli("verify", desk.out).code == 0
    )


def test_a_training_that_was_killed_right_after_its_last_step_is_explained(
    desk, cli, ctrl_c
):
    ctrl_c(Session, "step", 2)
    cli(*command(desk))
    (desk.out.with_name("model.partial") / JOURNAL_FILE).unlink()
    for arguments, words in (
        (resume(desk), "answer is lost"),
        (command(desk), "an unfinished fit"),
    ):
        ended = cli(*arguments)
        assert ended.code == 2 and words in said(ended.err)
    # As a version left it that had no journal of answers.
    (desk.out.with_name("model.partial") / ANSWERS_FILE).unlink()
    for arguments in (resume(desk), command(desk)):
        ended = cli(*arguments)
        assert ended.code == 2
        assert "has begun no step, or was killed right after its last one" in said(
            ended.err
        )


def test_a_run_keeps_no_address_of_a_database(tmp_path, desk):
    schema = Schema.from_toml(desk.schema)
    options = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "adjacency": "add-remove",
        "records": 5,
        "unit": "record",
    }
    options |= {"unit_column": None, "contributions": None}
    run = Run(
        method=DPLLM(maps=3),
        schema=schema,
        dataset="d",
        ledger="postgresql://me:secret@host/db?password=x",
        **options,
    )
    run.write(tmp_path)
    assert "secret" not in (tmp_path / RUN_FILE).read_text()
    with pytest.raises(OptionError, match=r"ledger is missing: .*me:\*\*\*@host"):
        Run.read(tmp_path)
    assert Run.read(tmp_path, default=run.ledger) == run
    # A file is kept, and goes before the default, not before what is typed.
    Run(
        method=DPLLM(), schema=schema, dataset="d", ledger="ledger.db", **options
    ).write(tmp_path)
    assert Run.read(tmp_path, default="other.db").ledger == str(desk.ledger)
    assert Run.read(tmp_path, ledger="other.db").ledger == "other.db"
    stored = json.loads((tmp_path / RUN_FILE).read_text())
    for text in (
        "{}",
        "[",
        json.dumps({**stored, "more": 1}),
        json.dumps({**stored, "seed": 1}),
        json.dumps({name: stored[name] for name in stored if name != "contributions"}),
    ):
        (tmp_path / RUN_FILE).write_text(text)
        with pytest.raises(ModelError, match="is broken"):
            Run.read(tmp_path)


def test_what_was_spent_so_far_is_that_of_the_steps_so_far(desk):
    plan = DPLLM(maps=2, steps=40, sampling_probability=0.25).plan(
        Schema.from_toml(desk.schema), Budget(epsilon=2.0)
    )
    assert _CostSoFar(plan, watched=False).note_after(20) == ""  # nobody looks
    cost = _CostSoFar(plan, watched=True)
    notes = [cost.note_after(done) for done in range(1, 41)]
    assert (
        notes[0] != notes[19] != notes[39]
        and notes[39] == f"epsilon so far at most {plan.epsilon:.3g}"
    )
    # Known to a twentieth of the steps, never of fewer than were taken.
    assert notes[20] == notes[19] == f"epsilon so far at most {cost.after(22):.3g}"
