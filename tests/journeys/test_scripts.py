"""A steward whose script runs at night: quiet verbs, and a log of what each run did."""

import re
import stat

import pytest
from tests.journeys.conftest import RECORDS, survey

STAGE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d (.*)")
FIT = "noisegate fit private.csv --schema schema.toml --epsilon 1 --dataset clinic"


@pytest.fixture
def night(steward):
    """The steward, with a ledger and two silos' plan."""
    (steward.folder / "public.csv").write_text(survey(487, seed=1))
    steward.types_all(
        [
            "noisegate ledger register clinic --epsilon 9",
            "noisegate plan --schema schema.toml --epsilon 1 --save plan.json",
            "noisegate plan --schema schema.toml --epsilon 1 --periods 2 --save r.json",
        ]
    )
    return steward


def stages(night):
    """What the log tells, without times."""
    lines = (night.folder / "run.log").read_text().splitlines()
    return [STAGE.fullmatch(line)[1] for line in lines]


def release(silo):
    return (
        f"noisegate release public.csv --plan plan.json --silo {silo} --out {silo} "
        f"--dataset {silo} --log run.log --quiet"
    )


def test_quiet_verbs_print_results_alone(night):
    quiet_lines = [
        f"{FIT} --out model --quiet",
        "noisegate sample model -n 50 -o copy.csv --quiet",
        "noisegate fit public.csv --stream r.json --out first --dataset clinic --quiet",
    ]
    for line in quiet_lines:
        ended = night.types(line)
        assert ended.out == "", line
        assert ended.err == "", line
    # In a terminal, a bar leaves nothing behind either.
    assert night.answers(f"{FIT} --out seen --quiet", []) == (0, "")
    evaluate = "noisegate evaluate --synthetic copy.csv --test public.csv --quiet"
    ended = night.types(f"{evaluate} --schema schema.toml --json")
    assert ended.json["marginals"]
    assert ended.err == ""
    ended = night.types("noisegate plan --schema schema.toml --epsilon 1 --quiet")
    assert "noisy values" in ended.out
    assert ended.err == ""


def test_quiet_verbs_still_warn_and_say_what_is_wrong(night):
    refused = night.types(f"{FIT}x --out model --quiet", code=2)
    assert refused.err.startswith("error: ")
    assert refused.out == ""
    unbooked = FIT.removesuffix(" --dataset clinic")
    ended = night.types(f"{unbooked} --out model --quiet")
    assert ended.err.startswith("warning: no --dataset")
    assert ended.out == ""
    # The next command of the same process speaks again.
    assert "Wrote" in night.types("noisegate sample model -n 5 -o copy.csv").err


def test_a_log_tells_what_runs_did_and_no_count(night):
    night.types(f"{FIT} --out model --log run.log --set cells=8")
    logged = stages(night)
    assert logged[0] == "A run begins."
    assert logged[-1] == "The run is done."
    assert "epsilon=1.0" in logged[1]
    assert "'cells': 8" in logged[1]
    assert "dataset='clinic'" in logged[1]
    assert "The release is complete; epsilon = 1 is spent." in logged
    assert logged[-2].startswith("Fitted; verdict: ")
    (night.folder / "run.log").chmod(0o644)  # it is closed to others again
    night.types_all(
        [
            "noisegate ledger register north --epsilon 9",
            "noisegate ledger register south --epsilon 9",
            release("north"),
            release("south"),
            "noisegate merge north south --out round --log run.log",
            "noisegate fit public.csv --stream r.json --out first --log run.log",
        ]
    )
    text = (night.folder / "run.log").read_text()
    assert stages(night)[: len(logged)] == logged
    assert text.count("A run begins.") == text.count("The run is done.") == 5
    for count in (RECORDS, 487):
        assert str(count) not in text
        assert f"{count:,}" not in text
    assert stat.S_IMODE((night.folder / "run.log").stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_is_refused_before_anything_is_spent(night):
    (night.folder / "records").mkdir()
    (night.folder / "private.csv").rename(night.folder / "records" / "private.csv")
    before = (night.folder / "records" / "private.csv").read_bytes()
    for data, log in [
        ("records/private.csv", "records/private.csv"),
        ("records/private.csv", "missing/run.log"),
        ("records", "records/run.log"),
        ("records/private.csv", "records"),
    ]:
        line = FIT.replace("private.csv", data)
        ended = night.types(f"{line} --out model --log {log}", code=2)
        assert f"--log {log}" in ended.err
    accounts = night.types("noisegate ledger show --json").json["accounts"]
    assert [account["spent"] for account in accounts] == [0]
    (records,) = (night.folder / "records").iterdir()
    assert records.read_bytes() == before


def test_a_run_that_is_stopped_says_so_without_the_words_of_the_error(night):
    (night.folder / "private.csv").write_text("age,hours,job,income\n34,x,nurse,no\n")
    night.types(f"{FIT} --out model --log run.log --show-values", code=2)
    assert stages(night)[-1] == "The run is stopped: DataError."
