"""What methods are told by a schema of images, and what `auto` is for one."""

import pytest

from noisegate.errors import OptionError
from noisegate.methods.pairwise import Pairwise
from noisegate.methods.registry import AUTO, make_for, method_named
from noisegate.privacy.plan import Budget
from noisegate.schema import Integer, Schema, pixel_schema
from noisegate_images.methods.joint import JointEmbedding

TABLE = Schema(
    (Integer(name="x", lower=0, upper=9), Integer(name="y", lower=0, upper=9))
)
SQUARE = pixel_schema(16, 16, labels=(0, 1))
BUDGET = Budget(epsilon=1)
# So that accounting is quick; five steps of a GAN are what its discriminator takes before its generator moves once.
FEW = {
    name: {"steps": 5, "sampling_probability": 0.1}
    for name in ("psg", "dp-gan", "dp-cgan")
}
FEW["psg"]["depth"] = 1


def test_auto_is_another_method_for_images():
    assert method_named(AUTO, TABLE).name == "pairwise"
    assert isinstance(make_for(AUTO, TABLE, {}), Pairwise)
    assert method_named(AUTO, SQUARE).name == "joint"
    method = make_for(AUTO, SQUARE, {"seed": 3})
    assert isinstance(method, JointEmbedding)
    assert (method.image, method.seed) == ((16, 16, 1), 3)


def test_what_is_asked_for_stays():
    assert (
        make_for("dp-merf", SQUARE, {"generator": "fully-connected"}).generator
        == "fully-connected"
    )
    assert make_for("joint", SQUARE, {"cell": 2}).cell == 2
    method = make_for("dp-merf", SQUARE, {"generator": "mixture"})
    assert (method.generator, method.image) == ("mixture", None)
    with pytest.raises(OptionError, match="8 x 8 x 1 has 64"):
        make_for("psg", SQUARE, {"image": (8, 8, 1)}).plan(SQUARE, BUDGET)
