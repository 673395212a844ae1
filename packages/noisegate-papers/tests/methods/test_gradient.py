"""What all methods that train on noisy gradients share, tried with one that only records what it is given."""

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.shared.stated import ledger_of

from noisegate import DPMERF, Gate
from noisegate.errors import DivergedError, ModelError, OptionError
from noisegate.methods.gradient import (
    JOURNAL_FILE,
    STATE_FILE,
    GradientMethod,
    LearnsByGradients,
    TrainsModel,
)
from noisegate.models.folder import verify_model, write_model
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.release import array_hashes, release_arrays
from noisegate.schema import Boolean, Continuous, Schema

SCHEMA = Schema((Continuous(name="u", lower=0.0, upper=1.0),))
STEPS = 6


class Sums:
    """Adds up what it is given; fails, or diverges, after a step of choice."""

    def __init__(self, method):
        self.total, self.steps, self.method = torch.zeros(2), 0, method

    def parameters(self):
        broken = self.steps == self.method.diverges
        return {"w": torch.full((2,), float("nan") if broken else float(self.steps))}

    def result(self):
        return {"sums": torch.stack([self.total] * 3)}

    def step(self, noisy):
        self.steps += 1
        if self.steps == self.method.breaks_in:
            raise KeyboardInterrupt
        self.total = self.total + noisy["w"]

    def state_dict(self):
        return {"total": self.total, "steps": torch.tensor(self.steps)}

    def load_state_dict(self, tensors):
        self.total, self.steps = tensors["total"], int(tensors["steps"])


@dataclass(frozen=True, kw_only=True)
class Summing(LearnsByGradients, TrainsModel, GradientMethod):
    """Its settings say where it breaks."""

    sizes: tuple[int, ...] = (1, 2)
    breaks_in: int = field(default=-1, compare=False)
    diverges: int = -1
    name = "summing"

    def gradient_plan(self, schema, budget):
        return GradientQuery(
            name="run",
            steps=STEPS,
            sampling_probability=0.5,
            clip_norm=1.0,
            parameters={"w": (2,)},
            trained={"sums": (3, 2)},
        )

    def loss(self, schema):
        return lambda parameters, numeric, codes: (
            parameters["w"] * numeric.sum()
        ).sum()

    def training(self, schema, plan, batch, device):
        self.__dict__["made"] = Sums(self)
        return self.made

    def model(self, release):
        raise NotImplementedError

    def to_json(self):
        return {
            name: value
            for name, value in super().to_json().items()
            if name in ("sizes", "diverges")
        }


def gate(**options):
    table = pa.table({"u": np.linspace(0, 1, 40)})
    return Gate(table, schema=SCHEMA, **{"epsilon": 50.0, "records": 40, **options})


def saved(release, folder):
    return write_model(
        folder / "m",
        release=release,
        tensors={"x": np.zeros(1)},
        model={"kind": "none"},
    )


def test_every_paid_step_is_taken_and_what_was_trained_is_released(tmp_path):
    done = []
    method = Summing()
    release = method.query(gate(), report=done.append)
    assert done == list(range(1, STEPS + 1))
    expected = torch.stack([method.made.total] * 3).numpy()
    assert np.array_equal(
        release.values["run"].reshape(3, 2).astype(np.float32), expected
    )
    assert verify_model(saved(release, tmp_path)).certificate.public["gradients"][
        "run"
    ]["trained"] == {"sums": [3, 2]}


def test_a_release_of_another_size_than_was_trained_is_not_verified(tmp_path):
    release = Summing().query(gate())
    release.certificate.public["gradients"]["run"]["trained"] = {"sums": [2, 2]}
    with pytest.raises(ModelError, match="other releases than"):
        verify_model(saved(release, tmp_path))


@pytest.mark.parametrize(
    "broken",
    [3, {"run": 3}, {"run": {"trained": 3}}, {"run": {"trained": {"sums": ["x"]}}}],
)
def test_a_certificate_with_broken_shapes_is_refused_without_a_traceback(
    broken, tmp_path
):
    release = Summing().query(gate())
    release.certificate.public["gradients"] = broken
    with pytest.raises(ModelError, match="the shapes of what was trained are broken"):
        verify_model(saved(release, tmp_path))


def test_shapes_of_what_was_trained_excuse_no_sum_over_all_records(tmp_path):
    schema = Schema((Boolean(name="u"), Boolean(name="v")), label="v")
    table = pa.table({"u": [True, False] * 20, "v": [True] * 40})
    release = DPMERF(frequencies=3).query(Gate(table, schema=schema, epsilon=5.0))
    name = next(iter(release.values))
    values = {**release.values, name: release.values[name][:1]}
    size = values[name].size
    hashes = array_hashes(release_arrays(values, release.noise_std))
    public = {
        **release.certificate.public,
        "gradients": {name: {"trained": {"x": [size]}}},
    }
    forged = replace(
        release,
        values=values,
        certificate=replace(release.certificate, hashes=hashes, public=public),
    )
    with pytest.raises(ModelError, match="other releases than"):
        verify_model(saved(forged, tmp_path))


def test_what_is_trained_must_have_the_planned_shapes_before_anything_is_spent(
    tmp_path,
):
    ledger = ledger_of(tmp_path, "d", epsilon=60.0, delta=1e-4)

    class Other(Sums):
        def result(self):
            return {"sums": self.total}

    class Wrong(Summing):
        def training(self, schema, plan, batch, device):
            return Other(self)

    method = Wrong()
    with pytest.raises(
        OptionError,
        match=r"has shapes {'sums': \(2,\)}, the plan has {'sums': \(3, 2\)}",
    ):
        method.query(gate(ledger=ledger, dataset="d"))
    assert len(ledger.history("d")) == 1


def test_an_interrupted_run_goes_on_where_it_stood_and_pays_once(tmp_path):
    ledger = ledger_of(tmp_path, "d", epsilon=60.0, delta=1e-4)
    stop = []

    def stop_after_two(done):
        stop.append(done)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Summing().query(
            gate(ledger=ledger, dataset="d"), folder=tmp_path, report=stop_after_two
        )
    assert (tmp_path / STATE_FILE).exists()
    method, done = Summing(), []
    release = method.query(
        gate(ledger=ledger, dataset="d"), folder=tmp_path, report=done.append
    )
    assert done == [3, 4, 5, 6]
    assert method.made.steps == STEPS
    assert release.certificate.ledger is not None
    assert len([entry for entry in ledger.history("d") if entry.kind == "reserve"]) == 1
    assert not (tmp_path / JOURNAL_FILE).exists()


def test_a_step_that_was_cut_in_two_is_lost_but_never_kept(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        Summing(breaks_in=3).query(gate(), folder=tmp_path)
    assert not (tmp_path / STATE_FILE).exists()
    method = Summing()
    method.query(gate(), folder=tmp_path)
    assert method.made.steps == STEPS - 3


def test_a_run_that_was_stopped_before_its_release_is_released(tmp_path):
    def stop(done):
        if done == STEPS:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Summing().query(gate(), folder=tmp_path, report=stop)
    method = Summing()
    release = method.query(gate(), folder=tmp_path)
    assert method.made.steps == STEPS
    assert np.array_equal(
        release.values["run"][:2, 0].astype(np.float32), method.made.total.numpy()
    )


def test_a_run_that_leaves_the_finite_numbers_stops_and_says_in_which_step():
    with pytest.raises(
        DivergedError,
        match=r"step 4: 'w' is not finite any more. Lower the learning rate",
    ):
        Summing(diverges=4).query(gate())


def test_a_broken_state_is_named(tmp_path):
    (tmp_path / STATE_FILE).write_bytes(b"no tensors")
    with pytest.raises(
        ModelError,
        match=rf"{STATE_FILE} is broken: .* remove its folder to start again",
    ):
        Summing().query(gate(), folder=tmp_path)
