"""What every kind of record model promises, whichever method fits it: one suite for all of them."""

import pytest

from noisegate.errors import ModelError
from noisegate.models.record_model import model_class
from noisegate.registry import extensions

OTHERS = {"linked", "locally-linear", "network-classifier"}
"""Kinds that are loaded whole: they draw no records of one table."""


@pytest.mark.parametrize("kind", extensions("noisegate.models"))
def test_every_kind_is_found_under_its_own_name_and_has_the_whole_surface(kind):
    model = model_class(kind)
    assert kind in OTHERS or model.kind == kind
    needed = (
        ("load", "save")
        if kind in OTHERS
        else ("draw", "tensors", "to_json", "from_saved")
    )
    assert all(callable(getattr(model, name)) for name in needed)


def test_an_unknown_kind_is_named():
    with pytest.raises(ModelError, match=r"'sorcery' is not known.*table-generator"):
        model_class("sorcery")
