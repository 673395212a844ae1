"""The queue for a GPU, with jobs on the CPU at tiny size: order, slices, resuming, and what is said without a GPU."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from gpu import integers, paths
from gpu.run import Job, main, read_jobs

from noisegate.methods.gradient import GradientMethod
from noisegate.methods.registry import METHODS

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand

JOBS = Path(integers.__file__).parent / "jobs.toml"
SLOW = """
import pathlib, signal, sys, time
out = pathlib.Path(sys.argv[1]); place = out / "place"
held = int(place.read_text()) if place.exists() else 0
signal.signal(signal.SIGINT, lambda *_: (place.write_text(str(held + 1)), sys.exit(130)))
print("slice", held, flush=True)
time.sleep(0 if held else 60)
"""


def queue(tmp_path, *entries):
    lines = []
    for one in entries:
        lines += ["[[job]]", *(f"{key} = {json.dumps(value)}" for key, value in one.items())]
    (tmp_path / "jobs.toml").write_text("\n".join(lines), "utf-8")
    return ["--jobs", str(tmp_path / "jobs.toml"), "--out", str(tmp_path / "out"), "--data", str(tmp_path)]


def job(name, command, **more):
    return {"id": name, "proves": "p", "command": command, "expected": "e", "minutes": 1, **more}


def python(tmp_path, name, code):
    (tmp_path / f"{name}.py").write_text(code, "utf-8")
    return f"{{python}} {tmp_path / name}.py {{out}}"


def state(tmp_path, name):
    return json.loads((tmp_path / "out" / name / "state.json").read_text())


def test_jobs_run_in_their_order_and_what_is_done_is_not_run_again(tmp_path, capsys):
    log = tmp_path / "order"
    said = f"import sys; open({str(log)!r}, 'a').write(sys.argv[1].split('/')[-1] + ' ')"
    options = queue(tmp_path, *(job(name, python(tmp_path, name, said)) for name in ("b", "a")))
    assert main([*options, "--device", "cpu"]) == 0
    assert main([*options, "--device", "cpu"]) == 0
    assert log.read_text() == "b a "
    assert "b: done before." in capsys.readouterr().out
    assert main([*options, "--device", "cpu", "--again", "--only", "a"]) == 0
    assert log.read_text() == "b a a "


def test_a_job_that_is_out_of_time_is_interrupted_and_goes_on_where_it_stood(tmp_path, capsys):
    command = python(tmp_path, "slow", SLOW)
    options = queue(tmp_path, job("slow", command, again=f"{command} again"))
    assert main([*options, "--device", "cpu", "--minutes", "0.02"]) == 0
    assert state(tmp_path, "slow")["state"] == "unfinished"
    assert main([*options, "--device", "cpu"]) == 0
    found = state(tmp_path, "slow")
    assert (found["state"], found["slices"]) == ("done", 2)
    log = (tmp_path / "out" / "slow" / "log.txt").read_text()
    assert "slice 0" in log and "slice 1" in log
    assert " again\n" in log, "the second slice has the command that goes on"


def test_a_job_that_fails_is_said_and_the_others_are_run(tmp_path):
    bad = job("bad", python(tmp_path, "bad", "raise SystemExit(3)"))
    options = queue(tmp_path, bad, job("good", python(tmp_path, "good", "")))
    assert main([*options, "--device", "cpu"]) == 1
    assert state(tmp_path, "bad")["code"] == 3 and state(tmp_path, "good")["state"] == "done"


def test_a_job_without_its_data_or_its_method_is_left_out_and_said(tmp_path, capsys):
    command = python(tmp_path, "never", "raise SystemExit(3)")
    options = queue(tmp_path, job("x", command, needs=["no-such-set"]), job("y", command, method="no-such-method"))
    assert main([*options, "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "x: left out, no no-such-set under --data" in out
    assert "y: left out, there is no method no-such-method" in out


def test_without_a_gpu_nothing_is_run_and_it_is_said_what_was_not(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gpu.run.has_gpu", lambda device: False)
    options = queue(tmp_path, job("x", python(tmp_path, "never", "raise SystemExit(3)")))
    assert main(options) == 0
    assert "No GPU is at hand, nothing was run. Not run or unfinished: x." in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_the_list_is_json_and_names_the_command_of_each_job(tmp_path):
    assert main(["--list", "--json", str(tmp_path / "list.json"), "--data", "data", "--out", "out"]) == 0
    rows = json.loads((tmp_path / "list.json").read_text())
    assert [row["id"] for row in rows] == [one.id for one in read_jobs(JOBS)]
    assert rows[0]["id"] == "integers", "whether the guarantee holds comes first"
    left = {name for row in rows for name in re.findall(r"\{(\w*)\}", row["command"])}
    assert not left, "places that are not filled in"
    assert all(row["state"] == "not run" for row in rows)


def test_wrong_names_and_times_are_refused(tmp_path, capsys):
    assert main(["--list", "--only", "nothing"]) == 2
    assert "--only nothing" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["--list", "--minutes", "0"])
    assert stop.value.code == 2


def test_methods_of_gradients_are_told_how_many_records_are_public():
    """Without --records they end before anything is read."""
    for one in read_jobs(JOBS):
        words = one.command.split()
        if "--method" in words and issubclass(METHODS[words[words.index("--method") + 1]], GradientMethod):
            assert "--records" in words, one.id


def test_every_job_says_what_it_proves_and_long_ones_can_go_on():
    for one in read_jobs(JOBS):
        assert isinstance(one, Job) and one.proves and one.expected
        resumable = one.again is not None or any(
            script in one.command for script in ("psg/run.py", "dp_llm/figure_5.py")
        )
        assert one.minutes <= 9 or resumable, one.id


def test_integers_are_right_here_and_a_device_that_mixes_images_is_found_out(monkeypatch):
    found = integers.checks("cpu")
    assert found["right"] and found["apart"] == 0.0
    right, order = integers.block_gradients, list(range(integers.IMAGES))
    here = integers.integers("cpu", integers.linear(), order)
    monkeypatch.setattr(integers, "choose_execution", lambda *given: None)

    def mixed(*given):
        return tuple(part + np.float32(2.0**-9) * part[:1] for part in right(*given))

    monkeypatch.setattr(integers, "block_gradients", mixed)
    assert not np.array_equal(integers.integers("cpu", integers.linear(), order), here)
    network, turned = integers.network(), order[::-1]
    assert not np.array_equal(integers.integers("cpu", network, order), integers.integers("cpu", network, turned))


def test_a_method_is_tried_and_one_that_fails_is_said(monkeypatch, tmp_path):
    assert paths.tried("dp-merf", "cpu")["state"] == "fitted"
    assert paths.tried("no-such-method", "cpu")["state"] == "failed"
