"""What a run says while it runs: lines of the log `noisegate`, and bars where they can be seen."""

import io
import logging
import re
import stat
from contextlib import nullcontext

import pytest
from rich.console import Console
from tests.shared.columns import boolean
from tests.shared.short_runs import SCHEMA, SMALL, TABLE
from tests.shared.stated import ledger_of

from noisegate import Schema, fit
from noisegate import progress as shown
from noisegate.app.runs import folder as observer
from noisegate.app.runs.folder import LogObserver
from noisegate.app.runs.log import RunLog
from noisegate.errors import OptionError, installed


def test_a_run_logs_what_it_plans_books_and_fits(caplog, tmp_path):
    ledger = ledger_of(tmp_path, epsilon=9.0, delta=1e-4)
    with caplog.at_level(logging.INFO, logger="noisegate"):
        SMALL.fit(TABLE, schema=SCHEMA, epsilon=2.0, ledger=ledger, dataset="clinic")
    assert {record.name.partition(".")[0] for record in caplog.records} == {"noisegate"}
    assert [type(handler) for handler in logging.getLogger("noisegate").handlers] == [
        logging.NullHandler
    ]
    log = "\n".join(caplog.messages)
    assert "pairwise: a plan of epsilon = 2, delta = 1e-05, add-remove" in log
    assert f"epsilon = 2 is recorded under 'clinic' in {tmp_path / 'ledger.db'}" in log
    assert "Reading records: done in" in log
    assert "Fitting: done in" in log
    assert "verdict: " in log
    assert "200" not in log, "the number of records is private"


def test_the_log_of_reading_tells_time_and_no_count(monkeypatch, caplog):
    monkeypatch.setattr(shown, "EVERY", 0.0)
    logs = []
    for records in (19_999, 20_000):
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="noisegate"):
            SMALL.fit(TABLE.slice(0, 1).take([0] * records), schema=SCHEMA, epsilon=2.0)
        logs.append(
            {
                re.sub(r"[0-9.]+ s\b", "T s", line)
                for line in caplog.messages
                if "Reading" in line
            }
        )
    assert (
        logs[0]
        == logs[1]
        == {"Reading records: T s so far", "Reading records: done in T s"}
    )


def test_the_file_of_a_run_is_the_same_for_any_number_of_records(tmp_path):
    logs = []
    for records in (19_999, 20_000):
        path = tmp_path / f"{records}.log"
        table = TABLE.slice(0, 1).take([0] * records)
        SMALL.fit(table, schema=SCHEMA, epsilon=2.0, log=path)
        lines = [line.partition(" ")[2] for line in path.read_text().splitlines()]
        logs.append([line for line in lines if not line.startswith("Fitted")])
    assert logs[0] == logs[1]
    assert len(logs[0]) == 6
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_disk_ends_the_log_and_not_the_run(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    log = RunLog(tmp_path / "run.log")
    with log.opened(), monkeypatch.context() as full:
        full.setattr("os.write", fails)
        log.write("This is lost.")
    monkeypatch.setattr("os.write", fails)
    with pytest.raises(OptionError, match="cannot be written: No space"), log.opened():
        pass


def test_a_bar_of_reading_tells_parts_of_a_hundred_in_a_terminal_alone(
    monkeypatch, tmp_path
):
    updates = []
    monkeypatch.setattr(
        shown,
        "bar",
        lambda *_: nullcontext(lambda done, note: updates.append((done, note))),
    )
    monkeypatch.setattr(
        observer,
        "standard_error",
        lambda: Console(file=io.StringIO(), force_terminal=True),
    )
    path = tmp_path / "x.csv"
    path.write_text("ill\n" + "true\nfalse\n" * 100_000)
    fit(
        path,
        method=SMALL,
        schema=Schema([boolean("ill")]),
        epsilon=2.0,
        progress=True,
    )
    parts = [
        (part, int(note.split()[-1].replace(",", "")))
        for part, note in updates
        if "over" in note
    ]
    assert len(parts) > 1
    assert all(
        over % 10_000 == 0 and abs(part - over // 2000) <= 5 for part, over in parts
    )


@pytest.mark.skipif(not installed("torch"), reason="gradients are taken with torch")
def test_a_training_logs_epsilon_so_far(caplog, monkeypatch):
    monkeypatch.setattr(shown, "EVERY", 0.0)
    settings = {"steps": 40, "sampling_probability": 0.1, "projection": None}
    with caplog.at_level(logging.INFO, logger="noisegate"):
        fit(TABLE, method="dp-llm", schema=SCHEMA, epsilon=2.0, records=200, **settings)
    lines = [message for message in caplog.messages if "epsilon so far" in message]
    costs = [float(line.rpartition(" ")[2]) for line in lines]
    assert lines[0].startswith("Training: ")
    assert len(lines) == 40
    assert 0 < costs[0] < costs[-1] <= 2.0
    assert costs == sorted(costs)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_a_bar_in_a_terminal_and_a_log_elsewhere(
    terminal, monkeypatch, caplog
):
    screen = io.StringIO()
    console = Console(
        file=screen, force_terminal=terminal, force_jupyter=False, width=100
    )
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with (
        caplog.at_level(logging.INFO, logger="noisegate"),
        LogObserver(shows_bars=True).working("Fitting", 3) as tell,
    ):
        tell(2, "close")
    assert ("Fitting" in screen.getvalue()) == terminal
    assert ("Fitting: done in 0.0 s" in caplog.messages) == (not terminal)
