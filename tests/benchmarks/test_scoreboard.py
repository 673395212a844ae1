"""The scoreboard: what is worse is marked, what chance explains is not, and a small set runs through."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "scoreboard"


@pytest.fixture(scope="module")
def board():
    before = list(sys.path)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("board")
    sys.path[:] = before


def line(commit, seed, *, machine="a machine", set_name="causal", **figures):
    return {
        "commit": commit,
        "date": "2026-12-01",
        "set": set_name,
        "seed": seed,
        "machine": machine,
        "figures": figures,
    }


NOISE = (-0.002, 0.0, 0.002)


def marks(board, before, now):
    """Returns the mark of each figure, for releases that differ by `NOISE`."""
    lines = [
        line(commit, seed, **{name: value + noise for name, value in figures.items()})
        for commit, figures in (("old", before), ("new", now))
        for seed, noise in enumerate(NOISE)
    ]
    return {row.figure: row.mark for row in board.compare(lines, "old", "new")}


def test_what_is_worse_by_two_standard_errors_is_marked_in_its_direction(board):
    """A standard error of the difference is .002 √(2/3) = .0016: .004 is beyond two of them, .003 is not."""
    before = {"roc_auc": 0.9, "f1": 0.7, "distance_2": 0.1, "distance_3": 0.2}
    assert marks(
        board,
        before,
        {"roc_auc": 0.896, "f1": 0.703, "distance_2": 0.104, "distance_3": 0.196},
    ) == {"roc_auc": "worse", "f1": "", "distance_2": "worse", "distance_3": "better"}


def test_spread_is_pooled_over_all_commits(board):
    """Three releases that happen to agree do not make a difference of two earlier spreads clear."""
    lines = [line("old", seed, f1=0.7) for seed in range(3)]
    lines += [line("new", seed, f1=0.699) for seed in range(3)]
    (row,) = board.compare(lines, "old", "new")
    assert row.mark == "worse" and row.degrees == 4
    lines += [line("older", seed, f1=0.7 + 5 * NOISE[seed]) for seed in range(3)]
    (row,) = board.compare(lines, "old", "new")
    assert row.mark == "" and row.degrees == 6


def test_a_figure_that_is_gone_is_told(board):
    assert marks(board, {"f1": 0.7, "ols_error": 0.1}, {"f1": 0.7}) == {
        "f1": "",
        "ols_error": "gone",
    }


def test_costs_count_on_one_machine_alone_and_where_other_work_does_not_explain_them(
    board,
):
    def marked(figure, cost, machine="a machine"):
        lines = [
            line(commit, seed, machine=place, **{figure: mean + noise})
            for commit, mean, place in (
                ("old", 10.0, "a machine"),
                ("new", cost, machine),
            )
            for seed, noise in enumerate(NOISE)
        ]
        (row,) = board.compare(lines, "old", "new")
        return row.mark

    costs = (10.4, 10.6, 9.0)
    assert [marked("peak_megabytes", cost) for cost in costs] == ["", "worse", "better"]
    costs = (4.0, 21.0, 23.0)
    assert [marked("cpu_seconds", cost) for cost in costs] == ["", "", "worse"]
    assert marked("cpu_seconds", 40.0, "another machine") == ""


def test_the_board_tells_counts_and_what_is_worse(board, tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    lines = [
        line(commit, seed, roc_auc=mean + noise, f1=0.7 + noise)
        for commit, mean in (("old", 0.9), ("new", 0.88))
        for seed, noise in enumerate(NOISE)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    assert board.main(["--results", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "new beside old: 1 of 2 figures are worse, 0 better" in shown
    (roc,) = [text for text in shown.splitlines() if "ROC-AUC" in text]
    assert "0.9000 ± 0.0012" in roc and "-0.0200 ± 0.0016" in roc and "worse" in roc
    assert board.main(["--results", str(path), "--now", "other"]) == 2
    assert "expected one of old, new" in capsys.readouterr().err


def test_no_figure_of_the_lines_is_unknown_and_peers_stand_beside(board):
    for entry in board.read_lines(board.RESULTS):
        assert entry["set"] in board.SETS and set(entry["figures"]) <= set(
            board.FIGURES
        )
    peers = board.peer_figures()
    assert set(peers["adult", "roc_auc"]) == {"AIM", "MST", "SWIFT"}


def test_a_small_set_runs_through_once(tmp_path):
    """One that has a line is not run again."""
    path = tmp_path / "results.jsonl"
    command = [sys.executable, str(FOLDER / "run.py"), "--sets", "small", "--dirty"]
    command += ["--seeds", "0", "--results", str(path)]
    for told in ("small, seed 0", ""):
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert (": small, seed 0" in ended.stdout) == bool(told)
    (entry,) = [json.loads(text) for text in path.read_text("utf-8").splitlines()]
    assert entry["set"] == "small" and entry["seed"] == 0
    figures = entry["figures"]
    assert {"roc_auc", "distance_3", "tail_error", "pearson_kept"} <= set(figures)
    assert 0 < figures["distance_1"] < 1 and figures["cpu_seconds"] > 0


def test_packages_with_changes_are_refused_and_a_set_without_its_file_is_left_out(
    tmp_path,
):
    """In a repository of its own: whether this one has changes is its own matter."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    source = tmp_path / "packages" / "noisegate" / "src" / "code.py"
    source.parent.mkdir(parents=True)
    source.write_text("1\n", "utf-8")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    command = [sys.executable, str(FOLDER / "run.py"), "--sets", "loans"]
    command += ["--code", str(tmp_path), "--results", str(tmp_path / "results.jsonl")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and "Left out: loans needs --data" in ended.stdout
    source.write_text("2\n", "utf-8")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "have changes" in ended.stderr
    assert "Traceback" not in ended.stderr
