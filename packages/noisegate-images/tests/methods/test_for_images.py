"""What methods are told by a schema of images, and what `auto` is for one."""

import pytest
import torch

from noisegate.errors import OptionError
from noisegate.methods.pairwise import Pairwise
from noisegate.methods.registry import AUTO, make_for, method_named
from noisegate.privacy.plan import Budget
from noisegate.schema import Integer, Schema, pixel_schema
from noisegate_images.methods.joint import JointEmbedding
from noisegate_images.models.image import build_image_generator

TABLE = Schema((Integer(name="x", lower=0, upper=9), Integer(name="y", lower=0, upper=9)))
SQUARE = pixel_schema(16, 16, labels=(0, 1))
ODD = pixel_schema(9, 11, 3, labels=(0, 1))
BUDGET = Budget(epsilon=1)
# So that accounting is quick; five steps of a GAN are what its discriminator takes before its generator moves once.
FEW = {name: {"steps": 5, "sampling_probability": 0.1} for name in ("psg", "dp-gan", "dp-cgan")}
FEW["psg"]["depth"] = 1


def test_auto_is_another_method_for_images():
    assert method_named(AUTO, TABLE).name == "pairwise"
    assert isinstance(make_for(AUTO, TABLE, {}), Pairwise)
    assert method_named(AUTO, SQUARE).name == "joint"
    method = make_for(AUTO, SQUARE, {"seed": 3})
    assert isinstance(method, JointEmbedding)
    assert (method.image, method.seed) == ((16, 16, 1), 3)


@pytest.mark.parametrize("name", ["joint", "mepf", "dp-merf", "dp-hp", "psg", "dp-gan", "dp-cgan"])
@pytest.mark.parametrize("schema", [SQUARE, ODD], ids=["square", "odd"])
def test_every_method_of_images_can_plan_without_more_being_said(name, schema):
    method = make_for(name, schema, FEW.get(name, {}))
    shape = schema.images.shape
    assert method.image == (shape.height, shape.width, shape.channels)
    assert method.plan(schema, BUDGET).epsilon <= 1


def test_what_is_asked_for_stays():
    assert make_for("dp-merf", SQUARE, {"generator": "fully-connected"}).generator == "fully-connected"
    assert make_for("joint", SQUARE, {"cell": 2}).cell == 2
    method = make_for("dp-merf", SQUARE, {"generator": "mixture"})
    assert (method.generator, method.image) == ("mixture", None)
    with pytest.raises(OptionError, match="8 x 8 x 1 has 64"):
        make_for("psg", SQUARE, {"image": (8, 8, 1)}).plan(SQUARE, BUDGET)


@pytest.mark.parametrize(("height", "width"), [(9, 11), (25, 25), (50, 37), (60, 60), (100, 100)])
def test_images_of_any_sides_get_the_same_features_and_generator(height, width):
    method = make_for("joint", pixel_schema(height, width, labels=(0, 1)), {})
    assert (method.generator, method.cell, method.orientations) == ("sub-pixel", 4, 750)
    made = build_image_generator(method.generator_network(), 2, seed=0)
    random = torch.Generator().manual_seed(0)
    assert made(made.noise(2, random), torch.tensor([0, 1])).shape == (2, height * width)
