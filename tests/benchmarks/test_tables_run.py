"""The command, end to end, on a table of three columns: one of our methods, and a peer that fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packages import PACKAGES, PEERS, PYTHON

from noisegate import Schema
from noisegate.schema import Boolean, Continuous

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand

RUN = Path(__file__).parents[2] / "benchmarks" / "tables" / "run.py"


def command(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), "--out", str(out), "--tables", "adult", "--epsilons", "1", "--seeds", "1", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "300"},
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output folder in which a table is prepared already, and an environment that lacks the peer's packages."""
    table = tmp_path / "tables" / "adult"
    table.mkdir(parents=True)
    columns = (Continuous(name="x", lower=0.0, upper=1.0), Boolean(name="u"), Boolean(name="y"))
    Schema(columns, label="y").to_toml(table / "schema.toml")
    lines = "x,u,y\n" + "".join(f"{i / 200},{i % 2},{int(i % 3 == 0)}\n" for i in range(200))
    for part in ("train.csv", "test.csv"):
        (table / part).write_text(lines)
    (table / "done").touch()
    home = tmp_path / "environments" / "dpmm"
    (home / "bin").mkdir(parents=True)
    # The interpreter itself, outside any environment: no package of ours is there, so none of theirs either.
    (home / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    wanted = {"requirements": PACKAGES["dpmm"].requirements, "python": PYTHON}
    (home / "installed.json").write_text(json.dumps(wanted, indent=2) + "\n")
    return tmp_path


@pytest.mark.slow
def test_our_method_is_scored_and_a_failing_peer_is_reported(out: Path) -> None:
    done = command(out, "--methods", "pairwise", "dpmm-mst")
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((out / "results.json").read_text())
    peer, ours = sorted(results["runs"], key=lambda run: run["method"])
    assert ours["status"] == "done"
    assert 0 < ours["scores"]["distance_1"] < 0.5
    assert 0 < ours["seconds"] <= ours["process_seconds"]
    assert ours["process_cpu_seconds"] > 0
    assert ours["date"].count("-") == 2
    assert ours["peak_megabytes"] > 50
    assert peer["status"] == "failed"
    assert "No module named" in peer["error"]
    assert "scores" not in peer
    assert "dpmm-mst, ε = 1, seed 0: failed: ModuleNotFoundError" in done.stdout
    # Train and test hold the same records here.
    assert results["ceilings"]["adult"]["distance_1"] == 0.0
    assert "NOT covered" in results["caveat"]
    # Given again, the command does nothing twice.
    answer = out / "runs" / "adult" / "pairwise" / "eps-1-seed-0.json"
    before = answer.stat().st_mtime_ns
    again = command(out, "--methods", "pairwise", "dpmm-mst")
    assert "2 runs, 2 of them done before." in again.stdout
    assert answer.stat().st_mtime_ns == before
    # Stopped before it was scored, a run is scored and not fitted again.
    entry = json.loads(answer.read_text())
    figures = entry.pop("scores")
    answer.write_text(json.dumps(entry | {"seconds": 1234.5}))
    command(out, "--methods", "pairwise", "dpmm-mst")
    entry = json.loads(answer.read_text())
    assert (entry["seconds"], entry["scores"]) == (1234.5, figures)


def test_a_table_that_cannot_be_made_says_what_is_missing(tmp_path: Path) -> None:
    done = command(tmp_path, "--methods", "pairwise")
    assert done.returncode == 1
    assert "adult needs --data DIR" in done.stdout


def test_every_peer_has_its_package_and_its_script() -> None:
    for peer in PEERS.values():
        assert peer.package in PACKAGES
        assert peer.script is None or (RUN.parent / "peers" / peer.script).is_file()
    scripts = {peer.script for peer in PEERS.values()}
    shared = {"contract.py", *(path.name for path in (RUN.parent / "peers").glob("*_models.py"))}
    assert {path.name for path in (RUN.parent / "peers").glob("*.py")} == (scripts - {None}) | shared
