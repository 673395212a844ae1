"""The probe computes on as many threads as what it probes: kernels may round by place for one number only (G-06)."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tests.shared.columns import continuous
from threadpoolctl import ThreadpoolController, threadpool_limits

import noisegate.devices
from noisegate.devices import one_thread
from noisegate.errors import SlowKernelsWarning
from noisegate.gate.gate import Gate
from noisegate.gate.per_example.gradients import module_loss
from noisegate.gate.sums import LocalEngine
from noisegate.privacy import noise
from noisegate.privacy.gradient_plan import GradientQuery, plan_steps
from noisegate.privacy.plan import Query, plan_sums
from noisegate.schema import Schema

SCHEMA = Schema(columns=tuple(continuous(f"x{i}", 0, 1) for i in range(3)))
BLAS = ThreadpoolController().select(user_api="blas").lib_controllers
CPU = torch.device("cpu")


def blas_threads():
    return max(library.get_num_threads() for library in BLAS)


class RoundsByPlaceOnOneThread:
    """Stands in for a kernel: it moves every other row of a block while `threads` says that it has one thread."""

    dim = 3
    norm = 2.0
    nonnegative = True

    def __init__(self, threads):
        self._threads = threads

    def __call__(self, records):
        vectors = records.numeric.astype(np.float32)
        if self._threads() == 1:
            vectors[1::2] = vectors[1::2] * np.float32(1 + 2.0**-12)
        return vectors


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    with threadpool_limits(2, user_api="blas"):
        torch.set_num_threads(2)
        yield
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "engine", [LocalEngine(threads=1), LocalEngine(threads=2)], ids=["alone", "pool"]
)
@pytest.mark.parametrize(
    "threads", [blas_threads, torch.get_num_threads], ids=["blas", "torch"]
)
def test_a_map_that_rounds_by_place_on_one_thread_is_summed_record_by_record(
    threads, engine, two_threads, monkeypatch
):
    monkeypatch.setattr(noise, "add_noise", lambda sums, **_: sums)
    records = np.random.default_rng(0).random((301, 3))

    def total(rows):
        gate = Gate(rows, schema=SCHEMA, epsilon=1.0, engine=engine)
        query = Query.of("q", RoundsByPlaceOnOneThread(threads), columns=1, share=1.0)
        plan = plan_sums(gate.budget, (query,))
        with pytest.warns(SlowKernelsWarning):
            return gate.sum(plan, method="t", public={}).values["q"]

    assert blas_threads() == torch.get_num_threads() == 2
    assert np.array_equal(total(records), total(records[::-1]))
    assert blas_threads() == torch.get_num_threads() == 2


def gradients_seen_by(loss_threads, *, engine=None):
    network = torch.nn.Linear(3, 1)

    def loss(run, row, codes):
        loss_threads.append((torch.get_num_threads(), blas_threads()))
        return run(row[None]).square().sum()

    shapes = {name: tuple(value.shape) for name, value in network.named_parameters()}
    start = {name: value.detach() for name, value in network.named_parameters()}
    gate = Gate(
        np.random.default_rng(0).random((40, 3)),
        schema=SCHEMA,
        epsilon=9.0,
        engine=engine,
    )
    plan = GradientQuery(
        name="g", steps=2, sampling_probability=0.5, clip_norm=1.0, parameters=shapes
    )
    session = gate.gradients(
        plan_steps(gate.budget, plan), module_loss(network, loss), method="t", public={}
    )
    return session, start


def test_steps_compute_on_the_threads_of_their_probe_whoever_calls_them(two_threads):
    seen = []
    session, start = gradients_seen_by(seen)
    session.prepare_steps(start)
    probed = set(seen)
    seen.clear()
    with session, ThreadPoolExecutor(1) as pool:
        with one_thread(CPU):
            session.step(start)
        assert torch.get_num_threads() == 2
        pool.submit(torch.set_num_threads, 1).result()
        pool.submit(session.step, start).result()
        assert pool.submit(torch.get_num_threads).result() == 1
    assert probed == set(seen) == {(2, 1)}


def test_an_engine_of_one_core_probes_on_one(two_threads, showing_engine):
    class OneCore(showing_engine):
        one_core = True

    seen = []
    session, start = gradients_seen_by(seen, engine=OneCore())
    with session:
        session.step(start)
    assert set(seen) == {(1, 1)}
    assert torch.get_num_threads() == 2


def test_numbers_of_threads_come_back_in_whatever_order_blocks_end(two_threads):
    with ThreadPoolExecutor(1) as pool:
        first = noisegate.devices.gate_threads()
        second = noisegate.devices.gate_threads(3)
        first.__enter__()
        pool.submit(second.__enter__).result()
        assert torch.get_num_threads() == 1
        assert blas_threads() == 1
        assert pool.submit(torch.get_num_threads).result() == 3
        first.__exit__(None, None, None)
        assert torch.get_num_threads() == 2
        assert blas_threads() == 1
        pool.submit(second.__exit__, None, None, None).result()
    assert torch.get_num_threads() == 2
    assert blas_threads() == 2


def test_a_library_that_is_loaded_inside_is_limited_from_the_next_block_on(
    two_threads, monkeypatch
):
    import noisegate.devices as devices

    class Late:
        user_api = "blas"
        filepath = "late.so"
        number = 5

        def get_num_threads(self):
            return self.number

        def set_num_threads(self, number):
            self.number = number

    late = Late()
    with noisegate.devices.gate_threads():
        with monkeypatch.context() as patched:
            patched.setattr(
                "threadpoolctl.ThreadpoolController",
                lambda: type("C", (), {"lib_controllers": [late]}),
            )
            patched.setattr(devices._libraries, "_module_count", 0)
            with noisegate.devices.gate_threads():
                assert late.number == 1
        devices._libraries._module_count = 0
    assert late.number == 5
