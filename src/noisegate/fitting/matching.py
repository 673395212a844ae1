"""For each feature map, the features of what a generator gives: expectations over cells, or features of points."""

from __future__ import annotations

from collections.abc import Mapping

from noisegate.features.categorical import Levels
from noisegate.features.feature_map import FeatureMap
from noisegate.features.fourier import RandomFourier
from noisegate.features.orientation import OrientedFourier
from noisegate.features.perceptual import Perceptual
from noisegate.features.pooled import PooledProducts
from noisegate.features.products import ColumnTable, Products
from noisegate.fitting.embedding import Embedding
from noisegate.fitting.expectation import ExpectedFourier, ExpectedLevels
from noisegate.fitting.orientation import PointOriented
from noisegate.fitting.perceptual import LatestActivations, point_perceptual
from noisegate.fitting.points import PointFourier
from noisegate.fitting.products import ExpectedColumns, MeanProducts, PointColumns, PooledPoints
from noisegate.generators.cells import numeric_cells
from noisegate.schema import Layout


def expected_embeddings(maps: Mapping[str, FeatureMap], layout: Layout) -> dict[str, Embedding]:
    """Returns a module for each map that a generator can be matched through; constant features have none."""
    cells = [numeric_cells(column) for column in layout.numeric]
    embeddings: dict[str, Embedding] = {}
    for name, feature_map in maps.items():
        match feature_map:
            case RandomFourier():
                embeddings[name] = ExpectedFourier(feature_map, cells, [column.size for column in layout.coded])
            case Levels():
                embeddings[name] = ExpectedLevels(feature_map, [len(cells) + j for j in feature_map.columns])
            case Products():
                embeddings[name] = MeanProducts(feature_map, ExpectedColumns(feature_map.tables, cells))
            case _:
                pass
    return embeddings


def point_embeddings(maps: Mapping[str, FeatureMap]) -> dict[str, Embedding]:
    """Returns a module, (rows, numeric columns) to (dim, rows), for each map that looks at numeric columns only."""
    embeddings: dict[str, Embedding] = {}
    networks: dict[int, LatestActivations] = {}
    for name, feature_map in maps.items():
        match feature_map:
            case RandomFourier():
                embeddings[name] = PointFourier(feature_map)
            case OrientedFourier():
                embeddings[name] = PointOriented(feature_map)
            case Perceptual():
                embeddings[name] = point_perceptual(feature_map, networks)
            case Products():
                embeddings[name] = MeanProducts(feature_map, PointColumns(_numeric(feature_map)))
            case PooledProducts(products=products, image=image, pool=pool):
                columns = PooledPoints(image, pool, PointColumns(_numeric(products)))
                embeddings[name] = MeanProducts(products, columns)
            case _:
                pass
    return embeddings


def _numeric(features: Products) -> list[ColumnTable]:
    return [table for table in features.tables if table.steps is not None]
