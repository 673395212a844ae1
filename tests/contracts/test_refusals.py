"""Settings that do not go together, or not with a schema: the plan says so, by their names, and no record was read."""

import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate import Budget, Schema
from noisegate.errors import UserError
from noisegate.methods.registry import METHODS
from noisegate.schema import pixel_schema

U, V = (continuous(name, missing=name == "v") for name in "uv")
W = categorical("w", ("low", "middle", "high"))
OLD = boolean("old")
TABLE = Schema((U, V, W), label="w")
WHOLE = Schema((U, V, W))
NUMERIC = Schema((U, V, W), label="u")
ALONE = Schema((OLD,), label="old")
MISSING = Schema((U, boolean("y", missing=True)), label="y")
SINGLE = Schema((U, categorical("y", "a")), label="y")
IMAGES = pixel_schema(8, 8, labels=("across", "down"))
PLAIN = pixel_schema(8, 8, labels=None)
PIXELS = IMAGES.columns[:-1]
LABEL = IMAGES.columns[-1]
HOLED = integer(PIXELS[0].name, 0, 255, missing=True)
SHAPE = {"image": (8, 8, 1)}
NETWORK = {"generator": "convolutional", **SHAPE}

CASES = [
    ("aim", {"degree": 5}, TABLE, "degree=5"),
    ("datalens", {"largest": 100}, TABLE, "largest=100 is more than the 3 inputs"),
    (
        "dp-cgan",
        {"label_shares": (0.2, 0.8)},
        TABLE,
        "label_shares has 2 numbers, the label 'w' 3 codes",
    ),
    ("dp-cgan", {"label_shares": (0.5, 0.6)}, TABLE, "label_shares="),
    ("dp-cgan", {}, WHOLE, "dp-cgan is given labels"),
    ("dp-cgan", {}, ALONE, "no column besides the label"),
    ("dp-dre", {}, ALONE, "no column besides the label"),
    ("dp-dre", {"decoder": "x"}, TABLE, "of a table, public rows are released"),
    ("dp-dre", {**SHAPE, "layer": "none"}, IMAGES, "'none'"),
    ("dp-gan", SHAPE, TABLE, "image=8 x 8 x 1 has 64 intensities, the schema 2"),
    ("dp-gan", {"image": (4, 8, 1)}, IMAGES, "image=4 x 8 x 1 has 32 intensities"),
    (
        "dp-gan",
        {**SHAPE, "discriminator_channels": (2, 2, 2, 2)},
        IMAGES,
        "cannot be halved 4 times",
    ),
    ("dp-gan", {**SHAPE, "discriminator_channels": ()}, IMAGES, "discriminator"),
    ("dp-hp", {"moved": False}, TABLE, "order=None: with moved=False"),
    ("dp-hp", {"subsets": (("u", "z"),)}, TABLE, "subsets: 'z' is no column"),
    ("dp-hp", {"subsets": (("u", "w"),)}, TABLE, "subsets: 'w' is the label"),
    ("dp-hp", {"subsets": (("u", "u"),)}, TABLE, "each once"),
    (
        "dp-hp",
        {"orders": {"w": 3}},
        TABLE,
        "orders names 'w', which is not a numeric column",
    ),
    ("dp-hp", {"length_scales": {"w": 0.1}}, TABLE, "length_scales names 'w'"),
    (
        "dp-hp",
        {"products": "random", "product_columns": 3},
        TABLE,
        "product_columns=3: the schema has 2 columns",
    ),
    ("dp-hp", {"subsets": (("u", "v"),), "product_order": 1500}, TABLE, "raise memory"),
    ("dp-llm", {}, WHOLE, "name a column with levels as the label"),
    ("dp-llm", {}, NUMERIC, "name a column with levels as the label"),
    ("dp-llm", {}, ALONE, "no column besides the label"),
    ("dp-llm", {}, MISSING, "may not be missing"),
    ("dp-llm", {}, SINGLE, "two levels or more"),
    ("dp-mepf", {**SHAPE, "network": "vgg"}, IMAGES, "network='vgg' is not known"),
    ("dp-mepf", {**SHAPE, "layers": ("first",)}, IMAGES, "layers="),
    ("dp-mepf", {"image": (12, 8, 1)}, IMAGES, "12 x 8 x 1"),
    (
        "dp-mepf",
        {**SHAPE, "generator": "table"},
        IMAGES,
        "generator='table' is not known",
    ),
    ("dp-mepf", {}, IMAGES, "image=None must be"),
    (
        "dp-mepf-trained",
        {**SHAPE, "network": "encoder"},
        IMAGES,
        "trains its network itself",
    ),
    ("dp-mepf-trained", SHAPE, PLAIN, "distinguish labels"),
    (
        "dp-merf",
        {"generator": "convolutional"},
        IMAGES,
        "image=None must be (height, width, channels)",
    ),
    (
        "dp-merf",
        {"generator": "residual", "image": (6, 8, 1), "channels": (8, 8, 8)},
        IMAGES,
        "multiples of 4",
    ),
    ("dp-merf", SHAPE, IMAGES, "needs a generator of images"),
    ("dp-merf", {**NETWORK, "channels": (3,)}, IMAGES, "needs two numbers"),
    ("dp-merf", {"length_scales": {"z": (0.1, 0.2)}}, TABLE, "length_scales names 'z'"),
    ("dp-merf", {"length_scale": (0.5, 0.1)}, TABLE, "length scale of column 'u'"),
    ("dp-merf", NETWORK, Schema(PIXELS), "needs a label with levels"),
    (
        "dp-merf",
        NETWORK,
        Schema((*PIXELS[1:], LABEL), label="label"),
        "64 intensities, the schema 63 numeric columns",
    ),
    (
        "dp-merf",
        NETWORK,
        Schema((*PIXELS, OLD, LABEL), label="label"),
        "'old' is neither a pixel nor the label",
    ),
    (
        "dp-merf",
        NETWORK,
        Schema((HOLED, *PIXELS[1:], LABEL), label="label"),
        "may be missing",
    ),
    (
        "dp-mge",
        {**SHAPE, "public": "there", "covariance": "diagonal"},
        IMAGES,
        "public images are for the axes",
    ),
    (
        "dp-mge",
        {**SHAPE, "covariance": "full", "axes": 145},
        IMAGES,
        "a feature has 144 numbers only",
    ),
    ("dp-ntk", {}, ALONE, "the label"),
    ("dpdm", {"image": (6, 6, 1), "channels": (4, 8)}, IMAGES, "multiples of 4"),
    ("dpdm", {}, IMAGES, "height, width, channels"),
    (
        "joint",
        {
            **SHAPE,
            **dict.fromkeys(("pixels", "orientations", "wavelets", "strokes"), 0),
        },
        IMAGES,
        "nothing to query",
    ),
    (
        "joint",
        {**SHAPE, "generator": "drawing"},
        IMAGES,
        "makes grey images of sides of 12 to 32",
    ),
    ("joint", {"image": (4, 4, 1)}, IMAGES, "4 x 4 x 1"),
    (
        "pe",
        {**SHAPE, "candidates": 2},
        pixel_schema(8, 8, labels=range(9)),
        "candidates=2: there are 9 labels",
    ),
    ("psg", {"start": "gaussians"}, TABLE, "give image="),
    ("psg", {**SHAPE, "start": "gaussians", "prior": True}, IMAGES, "prior=False"),
    ("psg", {"image": (29, 29, 1), "start": "gaussians"}, IMAGES, "29 x 29"),
    (
        "psg",
        {"samples_per_class": 10**7},
        TABLE,
        "samples_per_class=10000000: a set of 30,000,000 records",
    ),
    (
        "psg",
        {"prior": True},
        TABLE,
        "prior=True needs images whose sides are multiples of 4",
    ),
    (
        "psg",
        {"prior": True, "image": (6, 8, 1)},
        IMAGES,
        "prior=True needs images whose sides are multiples of 4",
    ),
    (
        "psg",
        {"prior": True, "prior_network": "dcgan", "image": (20, 20, 1)},
        IMAGES,
        "even and 22 or more",
    ),
]


@pytest.mark.parametrize(("name", "settings", "schema", "text"), CASES)
def test_what_does_not_fit_is_refused_by_the_plan(name, settings, schema, text):
    with pytest.raises(UserError) as refused:
        METHODS[name](**settings).plan(schema, Budget(epsilon=1.0))
    assert text in str(refused.value)
