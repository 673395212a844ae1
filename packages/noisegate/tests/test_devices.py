"""Bits of a fit depend on how many threads torch computes with: each thread has a number of its own."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from noisegate.devices import one_thread

torch = pytest.importorskip("torch")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def within():
    with one_thread(CPU):
        return torch.get_num_threads()


def test_each_thread_is_limited_also_where_another_one_is_inside_already():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(torch.set_num_threads, 2).result()
        with one_thread(CPU):
            assert pool.submit(within).result() == 1
        assert (within(), pool.submit(within).result()) == (1, 1)
    assert torch.get_num_threads() == 2


def test_who_leaves_before_the_last_one_has_its_number_again_later():
    with ThreadPoolExecutor(1) as pool:
        other = one_thread(CPU)
        with one_thread(CPU):
            pool.submit(other.__enter__).result()
        pool.submit(other.__exit__, None, None, None).result()
        assert pool.submit(torch.get_num_threads).result() == 2
    assert within() == 1
    assert torch.get_num_threads() == 2
