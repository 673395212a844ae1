"""The settings of the paper's runs are settings of the method."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from noisegate import PrivateSetGeneration

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "psg" / "run.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("psg_run", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_papers_settings_are_settings(script):
    method = PrivateSetGeneration(image=(28, 28, 1), **script.PAPER)
    assert PrivateSetGeneration.from_json(method.to_json()) == method


@pytest.mark.parametrize("schedule", ["paper", "laptop"])
def test_schedules_are_settings(script, schedule):
    options = SimpleNamespace(schedule=schedule, samples_per_class=10, steps=None, width=None)
    method = script.settings_of(options, 10.0, 0)
    assert method.image == (28, 28, 1)
    assert (method.steps == 100_000) == (schedule == "paper")
