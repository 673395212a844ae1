import json
from pathlib import Path
from typing import Any

import pytest
from report import END, START, in_markdown, main
from scoring import FIGURES
from summary import leads, rows


def run(method: str, seed: int, roc_auc: float, **more: Any) -> dict[str, Any]:
    scores = dict.fromkeys(FIGURES, 0.25) | {"roc_auc": roc_auc}
    known = {"table": "adult", "epsilon": 1.0, "status": "done", "error": "", "seconds": 3.0, "peak_megabytes": 1234.0}
    return {**known, "method": method, "seed": seed, "scores": scores, **more}


FAILED = {
    "table": "adult",
    "method": "dpsynth",
    "seed": 0,
    "status": "not installed",
    "error": "first line\nno such | package",
}
RESULTS = {
    "ceilings": {"adult": dict.fromkeys(FIGURES, 0.95)},
    "runs": [
        run("dpmm-aim", 0, 0.81),
        run("dp-merf", 0, 0.9),
        run("dp-merf", 1, 0.8),
        *({**FAILED, "epsilon": epsilon} for epsilon in (0.1, 1.0)),
    ],
}


def test_rows_are_means_over_seeds_best_first() -> None:
    best, other = rows(RESULTS["runs"])
    assert (best.method, best.seeds) == ("dp-merf", 2)
    assert best.mean["roc_auc"] == pytest.approx(0.85)
    assert best.spread["roc_auc"] == pytest.approx(0.0707, abs=1e-4)
    assert (other.method, other.seeds, other.spread) == ("dpmm-aim", 1, {})
    assert "cpu_seconds" not in best.mean


def ahead(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    runs = [
        run(method, seed, value)
        for method, values in (("pairwise", ours), ("dpmm-aim", theirs))
        for seed, value in enumerate(values)
    ]
    found = leads(rows([*runs, run("dpmm-mst", 0, 0.1)]), ("dpmm-aim", "dpmm-mst"))
    return {lead.figure: (lead.peer, pytest.approx(lead.margin), lead.clear) for lead in found}


def test_a_lead_is_over_the_best_peer_and_clear_only_beyond_its_standard_error() -> None:
    # Means .9 and .8 with deviations of .01: the standard error is .01.
    assert ahead([0.89, 0.91], [0.79, 0.81])["roc_auc"] == ("dpmm-aim", 0.1, True)
    assert ahead([0.7, 0.9], [0.7, 0.86])["roc_auc"] == ("dpmm-aim", 0.02, False)
    assert ahead([0.79, 0.81], [0.9])["roc_auc"] == ("dpmm-aim", -0.1, True)
    assert ahead([0.9], [0.8])["roc_auc"] == ("dpmm-aim", 0.1, None)
    # Of a distance less is better.
    far, near = (run("pairwise", 0, 0.8), run("dpmm-aim", 0, 0.8))
    far["scores"]["distance_2"] = 0.5
    lead = next(lead for lead in leads(rows([far, near]), ("dpmm-aim",)) if lead.figure == "distance_2")
    assert lead.margin == pytest.approx(-0.25)


def test_the_page_counts_who_is_ahead_and_names_the_peer() -> None:
    runs = [*(run("pairwise", seed, 0.9 + seed / 1000) for seed in (0, 1)), run("dpmm-mst", 0, 0.8)]
    page = in_markdown({**RESULTS, "runs": runs}, "bakeoff")
    assert "ROC-AUC 1 / 0 / 0 / 0; avg. prec. 0 / 1 / 0 / 0" in page
    assert "| adult | 1 | **noisegate by 0.1005 (dpmm-mst)** | level, +0.0000 (dpmm-mst) |" in page
    # Without a peer nobody is ahead.
    assert "Who is ahead" not in in_markdown({**RESULTS, "runs": runs[:2]}, "bakeoff")


def test_the_page_has_every_figure_and_every_failure() -> None:
    page = in_markdown(RESULTS, "bakeoff")
    assert "| noisegate dp-merf | **0.8500** ± 0.0707 |" in page
    assert "| dpmm-aim | 0.8100 |" in page
    assert "| *real data* | 0.9500 |" in page
    assert "| 3 |  | 1,234 | 2 |" in page
    # One line for both values of ε, with a bar that does not end the cell.
    assert "| dpsynth | adult | 0.1, 1 | not installed | `no such \\| package` |" in page


def test_a_figure_that_a_table_does_not_have_is_an_empty_cell() -> None:
    lacking = {name: value for name, value in RESULTS["runs"][0]["scores"].items() if name != "wasserstein"}
    ceiling = {name: 0.95 for name in FIGURES if name != "wasserstein"}
    page = in_markdown({"ceilings": {"adult": ceiling}, "runs": [run("dpmm-aim", 0, 0.8, scores=lacking)]}, "bakeoff")
    assert "| *real data* | 0.9500 | 0.9500 | 0.9500 | 0.9500 | 0.9500 | 0.9500 |  |" in page
    assert "| **0.2500** |  | 3 |" in page


def test_only_what_is_between_the_markers_is_rewritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, results = tmp_path / "page.md", tmp_path / "results.json"
    results.write_text(json.dumps(RESULTS))
    page.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    command = [str(results), "--page", str(page)]
    for _ in range(2):  # the second time changes nothing
        assert main(command) == 0
        text = page.read_text()
        assert text.startswith(f"before\n{START}\n")
        assert text.endswith(f"{END}\nafter\n")
        assert "old" not in text
    assert (tmp_path / "page" / "adult.png").read_bytes().startswith(b"\x89PNG")
    page.write_text("no markers\n")
    assert main(command) == 2
    assert "lacks the lines" in capsys.readouterr().err
    assert page.read_text() == "no markers\n"
