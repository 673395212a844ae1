import pytest

from noisegate.devices import choose_device
from noisegate.errors import OptionError


@pytest.mark.parametrize("name", ["gpu", "", "cuda:99", "CPU"])
def test_another_device_is_refused_with_the_choices(name):
    with pytest.raises(OptionError, match=r"device=.*choose 'auto' or one of cpu"):
        choose_device(name)
