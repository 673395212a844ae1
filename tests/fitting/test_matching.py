from noisegate.features.labels import Counts
from noisegate.fitting.expectation import ExpectedFourier, ExpectedLevels
from noisegate.fitting.matching import expected_embeddings


def test_each_map_gets_its_module_and_constant_features_none(method, release):
    maps = method.maps(release.schema)
    found = expected_embeddings(maps, release.schema.layout)
    assert {name: type(module) for name, module in found.items()} == {
        "fourier": ExpectedFourier,
        "levels": ExpectedLevels,
    }
    assert isinstance(maps["counts"], Counts)
