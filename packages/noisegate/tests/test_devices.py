"""Devices and threads: what is refused, and that each thread has its own number, on which the bits of a fit depend."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from noisegate.devices import choose_device, one_thread
from noisegate.errors import OptionError

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
        assert within() == 1
        assert pool.submit(within).result() == 1
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


@pytest.mark.parametrize("name", ["gpu", "", "cuda:99", "CPU"])
def test_another_device_is_refused_with_the_choices(name):
    with pytest.raises(OptionError, match=r"device=.*choose 'auto' or one of cpu"):
        choose_device(name)
