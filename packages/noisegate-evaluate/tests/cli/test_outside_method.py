"""A method in an installed package of somebody else: found by its entry point; priced, fitted, sampled and verified."""

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from noisegate.methods.registry import METHODS

EXAMPLE = Path(__file__).parents[4] / "examples" / "own_method"
SETTINGS = ("--method", "cosines")
SETTINGS += ("--set", "orders=8", "--set", "levels_share=2")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution with a method, installed beside noisegate."""
    known = dict(METHODS.items())
    site = tmp_path / "site"
    info = site / "noisegate_cosines-0.1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(EXAMPLE / "noisegate_cosines.py", site)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    points = [
        f"{name} = {place}"
        for name, place in project["entry-points"]["noisegate.methods"].items()
    ]
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "entry_points.txt").write_text(
        "\n".join(["[noisegate.methods]", *points, ""])
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(METHODS, "_classes", known)  # what is found is forgotten again
    yield
    sys.modules.pop("noisegate_cosines", None)


def test_a_method_of_an_installed_package_does_all_that_ours_do(installed, desk, cli):
    plan = cli("plan", "--schema", desk.schema, "--epsilon", "1", *SETTINGS, "--json")
    assert [release["name"] for release in json.loads(plan.out)["releases"]] == [
        "cosines",
        "levels",
        "counts",
    ]
    fitted = cli(
        *(
            "fit",
            desk.data,
            "--schema",
            desk.schema,
            "--epsilon",
            "1",
            "--out",
            desk.out,
            "--json",
            *SETTINGS,
        ),
        *("--dataset", "clinic", "--ledger", desk.ledger),
    )
    assert fitted.code == 0, fitted.err
    certificate = json.loads(fitted.out)["certificate"]
    assert (
        certificate["method"],
        certificate["public"]["settings"]["levels_share"],
    ) == ("cosines", 2)
    assert desk.account().spent == pytest.approx(1.0, rel=1e-3)
    made = desk.folder / "made.csv"
    assert cli("sample", desk.out, "-n", "20", "-o", made).code == 0
    assert len(made.read_text().splitlines()) == 21
    assert cli("verify", desk.out).code == 0


def test_what_the_documentation_of_extending_runs_does_run(installed):
    """It checks the contracts of the map and the method, and makes a figure."""
    page = (EXAMPLE.parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 2
    for program in programs:
        exec(program, {})
