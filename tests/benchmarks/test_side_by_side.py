"""Generated images of several methods in one picture: each class in its column, the first images, none picked."""

import importlib.util
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "dp_merf" / "figure_2.py"
SPEC = importlib.util.spec_from_file_location("dp_merf_figure_2", SCRIPT)
figure_2 = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figure_2)


def image(grey):
    return np.full((3, 5, 1), grey, np.uint8)


def test_the_first_images_of_each_class_are_taken():
    drawn = iter([(1, image(10)), (0, image(20)), (1, image(11)), (1, image(12)), (0, image(21)), (0, image(22))])
    found = figure_2.first_of_each(drawn, (0, 1), 2)
    assert [part[0, 0, 0] for part in found[0]] == [20, 21]
    assert [part[0, 0, 0] for part in found[1]] == [10, 11]


def test_each_class_has_its_column_and_what_is_missing_stays_white():
    bands = [("one", {0: [image(20)], 1: [image(10), image(11)]}), ("two", {0: [], 1: [image(30)]})]
    page = np.asarray(figure_2.picture(bands, 2))[:, figure_2._NAME :, 0]
    high, wide = 3 * figure_2._SCALE + figure_2._GAP, 5 * figure_2._SCALE + figure_2._GAP
    band = 2 * high + figure_2._BAND
    assert page[0, 0] == 20
    assert page[0, wide] == 10
    assert page[high, wide] == 11
    assert page[high, 0] == 255, "one image of class 0 alone"
    assert page[band, 0] == 255
    assert page[band, wide] == 30
