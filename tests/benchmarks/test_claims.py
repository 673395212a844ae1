"""Claims that did not hold: each has a script that finds what its README says of it, and a draft of a letter."""

import doctest
import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest

CLAIMS = Path(__file__).parents[2] / "benchmarks" / "claims"
ROWS = [
    line.split("|")[1:-1]
    for line in (CLAIMS / "README.md").read_text("utf-8").splitlines()
    if ".py` | [" in line
]
SCRIPTS = sorted({path.stem for path in CLAIMS.glob("*.py")} - {"showing", "corrected"})
sys.path.append(str(CLAIMS))


@pytest.mark.timeout(60)
# Loading another accountant takes seconds.
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "gs_wgan" else ())
        for name in SCRIPTS
    ],
)
def test_a_script_asserts_its_claims_and_says_them(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [script])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(CLAIMS / f"{script}.py"), run_name="__main__")
    assert ended.value.code == 0 and re.search(
        r"claimed [\d.]+, true [\d.]+", capsys.readouterr().out
    )


def test_every_claim_of_the_page_has_a_script_that_says_its_figures_and_a_letter() -> (
    None
):
    assert len(ROWS) == 14 and {row[4].strip(" `")[:-3] for row in ROWS} == set(SCRIPTS)
    for what, claimed, found, _, script, letter in ROWS:
        said = importlib.import_module(script.strip(" `")[:-3]).SAID
        for figure in map(
            float, re.findall(r"[\d.]+", f"{claimed} {found}".replace(",", ""))
        ):
            # Claims of 1 and 10 are given, the others and all corrected figures are computed.
            assert figure in (1, 10) or any(
                figure == pytest.approx(one, rel=0.015) for one, _ in said.values()
            ), what
        assert "none" in found or re.search(r"\*\*[\d.,]+\*\*", found), what
        words = (
            (CLAIMS / letter.strip().removeprefix("[draft](").removesuffix(")"))
            .read_text("utf-8")
            .split()
        )
        assert 120 <= len(words) <= 200, letter


def test_the_corrected_figures_are_those_of_their_examples() -> None:
    failed, attempted = doctest.testmod(importlib.import_module("corrected"))
    assert not failed and attempted > 10
