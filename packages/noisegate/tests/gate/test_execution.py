"""Where a machine's kernels round by place, the gate finds a way to compute in which no record depends on another."""

import os
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tests.kernels import EVERYTHING, ByPlace
from tests.shared.columns import boolean, continuous

from noisegate.errors import OptionError, SlowKernelsWarning, UnbookedWarning
from noisegate.gate import samples
from noisegate.gate.execution import Execution
from noisegate.gate.gate import Gate
from noisegate.gate.per_example.gradients import FactoredLoss, module_loss
from noisegate.gate.sessions import gradients
from noisegate.privacy import gradient_grid, noise
from noisegate.privacy.gradient_plan import GradientQuery, plan_steps
from noisegate.schema import Schema

SCHEMA = Schema(
    columns=(
        *(continuous(f"x{i}", 0, 1) for i in range(32)),
        boolean("y"),
    ),
    label="y",
)
NETWORK = torch.nn.Sequential(
    torch.nn.Linear(32, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2)
)


def frame(rows):
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            **{f"x{i}": random.uniform(size=rows) for i in range(32)},
            "y": random.uniform(size=rows) < 0.5,
        }
    )


def network():
    loss = module_loss(
        NETWORK,
        lambda run, x, codes: torch.nn.functional.cross_entropy(
            run(x[None]), codes[:1]
        ),
    )
    shapes = {name: tuple(value.shape) for name, value in NETWORK.named_parameters()}
    return (
        loss,
        {"parameters": shapes},
        {name: value.detach() for name, value in NETWORK.named_parameters()},
    )


def by_torch():
    """A loss that layers are not seen in: a product of matrices."""

    def loss(parameters, numeric, codes):
        return torch.nn.functional.cross_entropy(
            (numeric @ parameters["w"]).tanh()[None], codes[:1]
        )

    return loss, {"parameters": {"w": (32, 7)}}, {"w": torch.zeros(32, 7)}


def factored():
    loss = FactoredLoss(
        inputs=lambda numeric, codes: numeric[None] - 0.5,
        loss=lambda outputs, numeric, codes: (outputs.tanh() - 0.5).square().sum(),
    )
    return (
        loss,
        {"parameters": {"w": (1, 7, 32)}, "factored": True},
        {"w": torch.zeros(1, 7, 32)},
    )


LOSSES = {"network": network, "matrix": by_torch, "factored": factored}


def planned(options, budget):
    return plan_steps(
        budget,
        GradientQuery(
            name="g", steps=1, sampling_probability=0.5, clip_norm=1.0, **options
        ),
    )


@cache
def calibrated(made, budget):
    return planned(made()[1], budget)


@pytest.fixture
def plain(everyone, exactly):
    """The sum of all records."""


def stepped(made, data, rows=None):
    """The sum of one step, and how it was computed."""
    loss, options, start = made()
    gate = Gate(data, schema=SCHEMA, epsilon=90.0)
    plan = (
        calibrated(made, gate.budget)
        if made in LOSSES.values()
        else planned(options, gate.budget)
    )
    with gate.gradients(plan, loss, method="t", public={}, microbatch=rows) as session:
        return session.step(start), session._steps.vectors._gradients.execution


@pytest.mark.parametrize("kind", list(LOSSES))
@pytest.mark.parametrize("rows", [None, pytest.param(14, marks=pytest.mark.slow)])
def test_products_that_round_by_place_are_replaced_by_exact_ones(plain, kind, rows):
    data = frame(40)
    expected, good = stepped(LOSSES[kind], data, rows)
    with warnings.catch_warnings(), ByPlace():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UnbookedWarning)
        sums, way = stepped(LOSSES[kind], data, rows)
        alone = [stepped(LOSSES[kind], data.iloc[[row]], rows)[0] for row in (0, 1, 39)]
        together, _ = stepped(LOSSES[kind], data.iloc[[0, 1, 39]], rows)
    assert way.exact
    assert way.rows > 1
    assert np.array_equal(together, sum(alone))
    assert np.abs(sums - expected).max() < 1e-3 * np.abs(expected).max()
    assert good.rows == (rows or 64)


@pytest.mark.slow
def test_other_kernels_that_round_by_place_are_run_one_record_at_a_time_and_it_is_said(
    plain,
):
    data = frame(3)
    with (
        ByPlace(EVERYTHING),
        pytest.warns(
            SlowKernelsWarning, match=r"one at a time, about \d+ times slower"
        ),
    ):
        sums, way = stepped(network, data)
    assert way == Execution(rows=1)
    with ByPlace(EVERYTHING), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.array_equal(
            sum(stepped(network, data.iloc[[row]])[0] for row in range(3)), sums
        )


def test_a_loss_with_memory_is_refused_even_for_one_record_at_a_time():
    calls = []

    def remembering(parameters, numeric, codes):
        calls.append(0)
        return parameters["w"].sum() * float(len(calls))

    def made():
        return remembering, {"parameters": {"w": (3,)}}, {"w": torch.zeros(3)}

    for rows in (None, 1):
        with pytest.raises(OptionError, match="from one time to the next"):
            stepped(made, frame(3), rows)


def test_a_block_that_adds_something_else_than_its_records_is_refused(monkeypatch):
    original = gradient_grid.add_clipped

    def by_count(total, part, factors):
        original(total, part, factors)
        total[0] += len(part) == 2

    monkeypatch.setattr(gradient_grid, "add_clipped", by_count)
    with pytest.raises(OptionError, match="2 records of a block"):
        stepped(by_torch, frame(3))


SCRIPT = """
import sys
sys.path[:0] = {root!r}, {here!r}
import test_execution as here
here.check_all_blocks()
"""


def check_all_blocks():
    """Whatever this process's kernels do, in blocks of whatever size: a sum is the sum of its records."""
    samples.poisson_sample = lambda records, rate, _: np.arange(records)
    noise.add_noise = lambda sums, **_: sums
    gradients.GradientVectors.unpacked = lambda self, sums: sums
    data = frame(33)
    for kind, build in list(LOSSES.items())[:2]:
        for rows in (14, 8):
            found, way = stepped(build, data, rows)
            alone, _ = stepped(build, data.iloc[:1], rows)
            backwards, _ = stepped(build, data.iloc[:0:-1], rows)
            assert np.array_equal(found, alone + backwards), (kind, way)


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param({"MKL_CBWR": "COMPATIBLE"}, marks=pytest.mark.slow),
        pytest.param(
            {"MKL_CBWR": "AVX2"}, marks=pytest.mark.slow
        ),  # these round by place the most
        pytest.param({"ATEN_CPU_CAPABILITY": "default"}, marks=pytest.mark.slow),
    ],
    ids=lambda setting: "=".join(*setting.items()),
)
def test_the_kernels_of_other_processors(setting, pytestconfig):
    script = SCRIPT.format(
        root=str(pytestconfig.rootpath), here=str(Path(__file__).parent)
    )
    environment = {**os.environ, **setting}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
