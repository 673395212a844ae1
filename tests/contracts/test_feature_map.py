"""The contract of feature maps, for every map in `noisegate.queries`: bound, sign, independence, and the torch form.

A new map is added to `MAPS`; a strange one is shown to be found out below.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module

import numpy as np
import pytest
import torch
from tests.shared.columns import boolean, categorical, continuous, integer
from torch import nn

import noisegate_images.queries
import noisegate_papers.queries
from noisegate import queries as features
from noisegate.errors import OptionError
from noisegate.gate.sums import REVIEWED, is_reviewed
from noisegate.queries.binning import NumericBins
from noisegate.queries.contingency import Contingency
from noisegate.queries.feature_map import CellMap, Counts, Levels, PointMap, RowForm
from noisegate.schema import Layout, Schema, pixel_schema
from noisegate.schema.pixels import ImageShape
from noisegate.testing import check_feature_map, made_up
from noisegate_images.networks.named import ChosenLayers
from noisegate_images.queries.fourier import FourierOfValues, draw, draw_points
from noisegate_images.queries.orientation import Orientations, Wavelets
from noisegate_images.queries.perceptual import Activations, Perceptual
from noisegate_papers.queries.hermite import Series, column_tables, numeric_table
from noisegate_papers.queries.hermite_products import PooledProducts
from noisegate_papers.queries.products import Products
from noisegate_papers.queries.tangent import draw_network, draw_pairs
from noisegate_papers.queries.thumbnails import Thumbnails
from noisegate_papers.queries.transforms import (
    Compression,
    OuterProducts,
    Squares,
    random_axes,
    whitened,
)

NUMBERS = [
    integer("count", 0, 5, missing=True),
    continuous("rate", -1.0, 1.0, missing=True),
]
TABLE = Schema(
    [*NUMBERS, categorical("kind", "abc", missing=True), boolean("flag")]
).layout
IMAGE = ImageShape(height=8, width=8)
IMAGES = pixel_schema(8, 8, labels=(0, 1)).layout
ROWS = 96


def fourier(layout, kernel):
    scales = [(0.05, 0.5)] * len(layout.numeric)
    return draw(
        layout,
        count=40,
        kernel=kernel,
        length_scales=scales,
        exclude_label=False,
        seed=3,
    )


def products():
    tables = column_tables(TABLE, [Series(length_scale=0.2, order=3, stretch=2.0)] * 2)
    return Products(
        tables=tables,
        groups=((0,), (3,), (0, 1), (1, 2), (0, 2, 3)),
        weights=(0.5, 0.2, 0.7, 0.3, 0.4),
    )


def pixel_products(pixels, steps=255):
    table = numeric_table(
        Series(length_scale=0.3, order=2), steps, missing=False, reference=0.0
    )
    return Products(
        tables=(table,) * pixels, groups=((0,), (1, 2), (0, 3)), weights=(0.6, 0.5, 0.5)
    )


def oriented():
    orientations = Orientations(image=IMAGE)
    return FourierOfValues(
        of=orientations,
        fourier=draw_points(orientations.size, count=20, length_scale=0.5, seed=1),
    )


def waves():
    wavelets = Wavelets(image=IMAGE)
    return FourierOfValues(
        of=wavelets,
        fourier=draw_points(wavelets.size, count=20, length_scale=0.5, seed=1),
    )


def perceptual(moment=1):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 3, 3))
    return Perceptual(
        activations=Activations(
            layers=ChosenLayers(network, ("0", "2"), IMAGE, pool=True)
        ),
        moment=moment,
    )


def compressed():
    of = perceptual()
    return Compression(of=of, axes=random_axes(of.dim, 3, seed=2))


def white():
    of = perceptual()
    return whitened(of, of(made_up(IMAGES, seed=9)), dim=4, exponent=1.0, length=0.5)


def contingency():
    bins = (NumericBins((0.3, 0.7), nullable=True), NumericBins((0.5,), nullable=True))
    return Contingency(
        bins=bins,
        coded=(4, 2),
        tables=((), (0,), (0, 2), (1, 3, 2)),
        weights=(0.1, 1.0, 2.0, 0.5),
    )


@dataclass(frozen=True)
class Case:
    make: Callable[[], object]
    layout: Layout = field(default_factory=lambda: TABLE)
    # A torch form rounds neither values nor angles, and a network rounds by its kernels.
    tolerance: float = 1e-5
    exact: bool = True


MAPS = {
    "RandomFourier, pairs": Case(
        lambda: fourier(TABLE, "pairs"), tolerance=2e-3 * 40**-0.5
    ),
    "RandomFourier, numeric": Case(
        lambda: fourier(IMAGES, "numeric"), IMAGES, tolerance=2e-3 * 40**-0.5
    ),
    "RandomFourier, points": Case(
        lambda: draw_points(64, count=30, length_scale=2.0, seed=0),
        IMAGES,
        tolerance=2e-3 * 30**-0.5,
    ),
    "Levels": Case(lambda: Levels(columns=(0, 1), sizes=(4, 2))),
    "Counts": Case(Counts),
    "Contingency": Case(contingency),
    "Products": Case(products),
    "Products of pixels": Case(lambda: pixel_products(64), IMAGES),
    "PooledProducts": Case(
        lambda: PooledProducts(
            products=pixel_products(16, 255 * 4), image=IMAGE, pool=2
        ),
        IMAGES,
    ),
    "NeuralTangent": Case(lambda: draw_network(64, width=7, seed=0), IMAGES),
    "PairTangents": Case(
        lambda: draw_pairs(TABLE, width=3, cells=5, memory=10, seed=0)
    ),
    "Thumbnails": Case(lambda: Thumbnails(image=IMAGE, side=2), IMAGES),
    "Thumbnails, led": Case(lambda: Thumbnails(image=IMAGE, side=2, lead=1.5), IMAGES),
    "OuterProducts of images": Case(
        lambda: OuterProducts(of=Thumbnails(image=IMAGE, side=2, lead=1.5)), IMAGES
    ),
    "FourierOfValues, orientations": Case(oriented, IMAGES, tolerance=4e-3 * 20**-0.5),
    "FourierOfValues, wavelets": Case(waves, IMAGES, tolerance=4e-3 * 20**-0.5),
    "Perceptual": Case(perceptual, IMAGES, exact=False),
    "Perceptual, squares": Case(lambda: perceptual(2), IMAGES, exact=False),
    "Squares": Case(lambda: Squares(of=perceptual()), IMAGES, exact=False),
    "Compression": Case(compressed, IMAGES, exact=False),
    "OuterProducts": Case(lambda: OuterProducts(of=compressed()), IMAGES, exact=False),
    "Whitened": Case(white, IMAGES, exact=False),
}


COLUMNS = column_tables(TABLE, [Series(length_scale=0.2, order=3)] * 2)
CUT = contingency()
REFUSED = {
    "no table": lambda: replace(CUT, tables=(), weights=()),
    "a weight too many": lambda: replace(CUT, weights=(1.0,) * 5),
    "a column twice in a table": lambda: replace(CUT, tables=((0, 0),), weights=(1.0,)),
    "a column that is none": lambda: replace(CUT, tables=((4,),), weights=(1.0,)),
    "a column below 0": lambda: replace(CUT, tables=((-1,),), weights=(1.0,)),
    "five columns": lambda: replace(
        CUT, coded=(2,) * 5, tables=((0, 1, 2, 3, 4),), weights=(1.0,)
    ),
    "no code": lambda: replace(CUT, coded=(3, 0)),
    **{
        f"a weight of {weight}": lambda weight=weight: replace(
            CUT, tables=((),), weights=(weight,)
        )
        for weight in (0.0, -1.0, float("nan"), float("inf"), 1e-60, 1e60)
    },
    "no group": lambda: Products(tables=COLUMNS, groups=(), weights=()),
    "an empty group": lambda: Products(tables=COLUMNS, groups=((),), weights=(1.0,)),
    "a column twice in a group": lambda: Products(
        tables=COLUMNS, groups=((0, 0),), weights=(1.0,)
    ),
    "a group without weight": lambda: Products(
        tables=COLUMNS, groups=((0,),), weights=(0.0,)
    ),
    "a group of no column": lambda: Products(
        tables=COLUMNS, groups=((9,),), weights=(1.0,)
    ),
    "an order that overflows": lambda: Series(length_scale=0.1, order=2001),
    "an order that is not a number": lambda: Series(length_scale=0.1, order=2.5),
    "a length scale of nothing": lambda: draw_points(
        4, count=3, length_scale=0.0, seed=0
    ),
    "a length scale without bound": lambda: draw_points(
        4, count=3, length_scale=float("inf"), seed=0
    ),
    "a third moment": lambda: perceptual(3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_map_can_be_is_refused(name):
    with pytest.raises(OptionError):
        REFUSED[name]()


@pytest.mark.parametrize("name", MAPS)
def test_a_map_keeps_its_contract(name):
    case = MAPS[name]
    check_feature_map(
        case.make(), case.layout, tolerance=case.tolerance, exact=case.exact
    )


@pytest.mark.parametrize("name", MAPS)
def test_equal_settings_make_equal_maps(name):
    case = MAPS[name]
    records = made_up(MAPS[name].layout, seed=5)
    assert case.make()(records).tobytes() == case.make()(records).tobytes()


def test_a_generator_is_matched_through_maps_of_columns_alone():
    has = {
        name: {p for p in (CellMap, PointMap) if isinstance(case.make(), p)}
        for name, case in MAPS.items()
    }
    assert has["Counts"] == has["Contingency"] == has["Whitened"] == set()
    assert has["Products"] == {CellMap, PointMap}


@dataclass(frozen=True)
class TooLong:
    """Says it is shorter than it is, in rare records only."""

    dim: int = 2
    norm: float = 1.0
    nonnegative: bool = True

    def __call__(self, records):
        vectors = np.zeros((len(records), 2), dtype=np.float32)
        vectors[:, 0] = np.where(np.isnan(records.numeric[:, 0]), 1.1, 0.9)
        return vectors


def test_a_map_that_says_too_little_is_found_out():
    with pytest.raises(AssertionError, match=r"norm 1\.1"):
        check_feature_map(TooLong(), TABLE)


@dataclass(frozen=True)
class OfTheBatch(TooLong):
    """Looks at what else is in the batch."""

    def __call__(self, records):
        return np.full(
            (len(records), 2), 0.5 * np.nanmean(records.numeric), dtype=np.float32
        )


def test_a_map_that_mixes_records_is_found_out():
    with pytest.raises((AssertionError, OptionError)):
        check_feature_map(OfTheBatch(), TABLE)


class Shifted(Levels):
    def of_cells(self, layout):
        form = super().of_cells(layout)
        return RowForm(lambda constants, vectors: form(vectors) + 0.01)


def test_a_torch_form_that_differs_is_found_out():
    with pytest.raises(AssertionError, match="torch form is off"):
        check_feature_map(Shifted(columns=(0, 1), sizes=(4, 2)), TABLE)


def test_the_gate_believes_the_norms_of_reviewed_maps_alone():
    stated = {
        f"{member.__module__}.{name}"
        for room in (features, noisegate_images.queries, noisegate_papers.queries)
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
        for name, member in vars(import_module(module.name)).items()
        if isinstance(member, type)
        and member.__module__ == module.name
        and "exact_sum" in vars(member)
        and not getattr(member, "_is_protocol", False)
    }
    assert stated == REVIEWED
    assert is_reviewed(Contingency)
    assert not is_reviewed(
        type("Contingency", (Contingency,), {"__module__": Contingency.__module__})
    )
