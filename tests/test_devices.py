import pytest
import torch

from noisegate.devices import choose_device
from noisegate.errors import OptionError


def test_auto_is_a_gpu_when_there_is_one():
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:99", "CPU"])
def test_another_device_is_refused_with_the_choices(name):
    with pytest.raises(OptionError, match=r"device=.*choose 'auto' or one of cpu"):
        choose_device(name)
