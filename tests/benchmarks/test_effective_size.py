"""Effective data-set sizes, what the paper reads off its figure, and the generator that is fitted without privacy."""

import sys
import tomllib
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_hp"))

import full_mmd
from effective_size import curve_of, figures

FOLDER = Path(full_mmd.__file__).parent


def test_the_authors_curves_level_off_where_the_paper_says():
    """Section 5.3: at about 5 % (3k) to 10 % (6k), for all but full MMD."""
    published = tomllib.loads((FOLDER / "expected.toml").read_text())["curves"]
    curves = {
        name: dict(zip(published["images"], row, strict=True))
        for name, row in published["mnist"].items()
    }
    found = figures(curves)
    assert {name: row["levels off"] for name, row in found.items()} == {
        **{"real": 60_000, "full-mmd": 60_000},
        **{"dp-hp": 6000, "dp-merf": 3000},
    }
    assert (
        found["dp-merf"]["worth"]
        < found["dp-hp"]["worth"]
        < 600
        < found["full-mmd"]["worth"]
    )
    assert found["real"]["worth"] is None
    assert curve_of({"curve": {"60": [{"accuracy": 0.5}, {"accuracy": 0.7}]}}) == {
        60: pytest.approx(0.6)
    }
