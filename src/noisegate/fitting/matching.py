"""For each feature map, its expected features under a table generator."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from noisegate.features.categorical import Levels
from noisegate.features.feature_map import FeatureMap
from noisegate.features.fourier import RandomFourier
from noisegate.fitting.expectation import ExpectedFourier, ExpectedLevels
from noisegate.generators.cells import numeric_cells
from noisegate.schema import Layout


def expected_embeddings(maps: Mapping[str, FeatureMap], layout: Layout) -> dict[str, nn.Module]:
    """Returns a module for each map that a generator can be matched through; constant features have none."""
    cells = [numeric_cells(column) for column in layout.numeric]
    embeddings: dict[str, nn.Module] = {}
    for name, feature_map in maps.items():
        match feature_map:
            case RandomFourier():
                embeddings[name] = ExpectedFourier(feature_map, cells, [column.size for column in layout.coded])
            case Levels():
                embeddings[name] = ExpectedLevels(feature_map, [len(cells) + j for j in feature_map.columns])
            case _:
                pass
    return embeddings
