"""A metric is one file: what a stranger's package names among its entry points is in reports, JSON and pages."""

from dataclasses import dataclass

import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate_evaluate.metrics.result import METRICS, MetricResult, metric, metrics_of

from ..test_measures_of_images import SCHEMA, images, measured, page


@dataclass(frozen=True, kw_only=True)
class Apart(MetricResult):
    distance: float

    @classmethod
    def measured(cls, synthetic, real, *, seed, schema=None, **_):
        if schema is not None:
            return cls(distance=float(np.mean(synthetic["x"]) - np.mean(real["x"])))
        if len(real) <= 20:
            return None
        return cls(distance=float(synthetic.mean() - real.mean()))

    def page(self, name):
        return {f"{name}!": f"{self.distance:.2f}"}


@pytest.fixture(scope="module")
def report():
    """A report on images with one metric more, as of an installed package."""
    metrics_of("features")  # ours are there
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(METRICS, "_classes", dict(METRICS._classes))
        metric("apart", "features")(Apart)
        yield measured(images(0), images(1), SCHEMA, images(2))


def test_the_json_form_of_a_report_has_it(report):
    distances = report.to_json()["distances"]
    assert distances["apart(pixels)"] == {
        "distance": report.distances["apart"].distance
    }


def test_it_has_a_floor_of_its_own(report):
    form = report.to_json()
    synthetic, floor = (
        form[name]["apart(pixels)"] for name in ("distances", "distances_floor")
    )
    assert floor != synthetic


def test_the_printed_page_has_it(report):
    assert "apart(pixels)!" in page(report)


def test_it_has_no_figure_of_too_few_images(report):
    few = measured(images(0), images(1, rows=20), SCHEMA)
    assert few.to_json()["distances"]["apart(pixels)"] is None


def test_two_metrics_of_one_name_are_refused():
    with pytest.raises(OptionError, match="'kid'"):
        metric("kid")(Apart)
