import os
import sys
import time
from pathlib import Path

import psutil
import pytest
from isolated import Limits, Outcome, run_limited

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand


def run(code: str, folder: Path, *, seconds: float = 60, cpu_seconds: float = 60, megabytes: float = 4_000) -> Outcome:
    limits = Limits(seconds=seconds, cpu_seconds=cpu_seconds, megabytes=megabytes)
    return run_limited([sys.executable, "-c", code], folder / "log", limits, os.environ)


def test_a_command_that_ends_well_has_its_time_and_memory(tmp_path: Path) -> None:
    outcome = run("import time; block = bytearray(200_000_000); time.sleep(0.6)", tmp_path)
    assert (outcome.status, outcome.error) == ("done", "")
    assert outcome.seconds >= 0.6
    assert 0 < outcome.cpu_seconds < 0.6 + outcome.seconds
    assert 200 < outcome.peak_megabytes < 300


def test_a_failure_is_told_in_its_last_lines(tmp_path: Path) -> None:
    outcome = run("print('before', flush=True); raise ValueError('the reason')", tmp_path)
    assert outcome.status == "failed"
    assert outcome.error.endswith("ValueError: the reason")
    assert run("raise SystemExit(3)", tmp_path).error == "ended with exit code 3"


def _alive(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_time_limit_ends_the_children_too(tmp_path: Path) -> None:
    child = "import time; time.sleep(60)"
    code = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print(child.pid, flush=True); child.wait()"
    )
    started = time.perf_counter()
    outcome = run(code, tmp_path, seconds=2)
    assert outcome.status == "timeout"
    assert outcome.error.endswith("ended at its limit of 2 s")
    assert time.perf_counter() - started < 20
    child_id = int((tmp_path / "log").read_text())
    # On a busy machine it is some time before a killed process is gone; left alone, it would live for a minute.
    while _alive(child_id):
        assert time.perf_counter() - started < 30
        time.sleep(0.05)


def test_the_limit_on_the_processor_counts_work_of_children_and_no_sleep(tmp_path: Path) -> None:
    work = "import time; started = time.process_time()\nwhile time.process_time() - started < 30: pass"
    outcome = run(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])", tmp_path, cpu_seconds=1)
    assert outcome.status == "timeout"
    assert 1 < outcome.cpu_seconds < 5
    assert outcome.error == "ended at its limit of 1 s of the processor"
    assert run("import time; time.sleep(3)", tmp_path, cpu_seconds=2).status == "done"


def test_the_memory_limit_counts_children(tmp_path: Path) -> None:
    child = "import time; block = bytearray(300_000_000); time.sleep(30)"
    outcome = run(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])", tmp_path, megabytes=200)
    assert outcome.status == "memory"
    assert outcome.seconds < 25
