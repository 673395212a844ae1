"""A metric is one file: what a stranger's package names among its entry points is in reports, JSON and pages."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate_evaluate.metrics import result
from noisegate_evaluate.metrics.result import MetricResult, metric, metrics_of

from ..test_image_report import SCHEMA, images, measured, page


@dataclass(frozen=True, kw_only=True)
class Apart(MetricResult):
    distance: float

    @classmethod
    def measured(cls, synthetic, real, *, seed, schema=None, **_):
        if schema is None:
            return (
                cls(distance=float(synthetic.mean() - real.mean()))
                if len(real) > 20
                else None
            )
        return cls(distance=float(np.mean(synthetic["x"]) - np.mean(real["x"])))

    def page(self, name):
        return {f"{name}!": f"{self.distance:.2f}"}


@pytest.fixture
def installed(monkeypatch):
    """Adds a metric to a kind, as an installed package would."""
    metrics_of("features")  # ours are there
    monkeypatch.setattr(result, "_METRICS", dict(result._METRICS))

    def install(kind):
        metric("apart", kind)(Apart)
        point = SimpleNamespace(name="apart", load=lambda: Apart)
        monkeypatch.setattr(result, "extensions", lambda group: {"apart": point})

    return install


def test_a_metric_of_images_is_in_the_report(installed):
    installed("features")
    sets = images(0), images(1), SCHEMA, images(2)
    report = measured(*sets)
    told = report.to_json()
    assert told["distances"]["apart(pixels)"] == {
        "distance": report.distances["apart"].distance
    }
    assert (
        told["distances_floor"]["apart(pixels)"] != told["distances"]["apart(pixels)"]
    )
    assert "apart(pixels)!" in page(report)
    assert (
        measured(images(0), images(1, rows=20), SCHEMA).to_json()["distances"][
            "apart(pixels)"
        ]
        is None
    )


def test_two_metrics_of_one_name_are_refused():
    with pytest.raises(OptionError, match="'kid'"):
        metric("kid")(Apart)
