import matplotlib.axes
import numpy as np
from matplotlib.image import imread

from noisegate.schema.pixels import ImageShape
from noisegate_evaluate.reporting.filters import MapRow, maps_picture

SHAPE = ImageShape(height=4, width=3)


def row(count=2, name="$x_1^{", **options):
    maps = np.random.default_rng(0).normal(size=(count, 12))
    return MapRow(name=name, maps=maps, captions=tuple(f"{m}" for m in range(count)), **options)


def test_a_picture_has_every_map_and_image_once(tmp_path, monkeypatch):
    drawn = []
    original = matplotlib.axes.Axes.imshow
    monkeypatch.setattr(
        matplotlib.axes.Axes, "imshow", lambda self, x, **k: drawn.append((x, k)) or original(self, x, **k)
    )
    rows = [row(2, image=np.linspace(0, 1, 12)), row(3)]
    maps_picture(rows, tmp_path / "maps.png", shape=SHAPE, title="maps")
    assert imread(tmp_path / "maps.png").ndim == 3
    assert [x.shape for x, _ in drawn] == [(4, 3)] * 6
    assert np.array_equal(drawn[0][0], rows[0].image.reshape(4, 3))
    # Nothing is white, and there is as much room for what speaks against a class as for what speaks for it.
    for (x, options), single in zip(drawn[1:], [*rows[0].maps, *rows[1].maps], strict=True):
        assert np.array_equal(x, single.reshape(4, 3))
        assert options["vmax"] == -options["vmin"] == np.abs(single).max()
