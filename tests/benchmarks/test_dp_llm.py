"""Benchmarks of DP-LLM: the model without privacy, what is read of one with it, and the rows of Figure 5."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_llm"))

from maps import Maps, Setup, _beside, released_maps
from without_privacy import train_without_privacy

from noisegate import Gate
from noisegate.methods.llm import DPLLM
from noisegate.records import Rows
from noisegate.schema import pixel_schema

# Other benchmarks have a figure_5 too.
FIGURE_5 = Path(__file__).parents[2] / "benchmarks" / "dp_llm" / "figure_5.py"
SPEC = importlib.util.spec_from_file_location("dp_llm_figure_5", FIGURE_5)
figure_5 = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figure_5)

SETTINGS = {"maps": 4, "steps": 60, "sampling_probability": 0.2, "learning_rate": 1.0, "temperature": 1.0}


@pytest.fixture(scope="module")
def stripes():
    """Images of 4 x 4 pixels with a bright row or a bright column: no single linear map tells the two apart."""
    random = np.random.default_rng(0)
    labels, place = random.integers(0, 2, 400), random.integers(0, 4, 400)
    images = random.uniform(0, 0.2, (400, 4, 4)).astype(np.float32)
    for image, label, line in zip(images, labels, place, strict=True):
        image[(line, slice(None)) if label else (slice(None), line)] = 1
    return images.reshape(400, 16), labels


@pytest.mark.parametrize("projection", [None, 12])
def test_without_privacy_maps_learn_what_one_linear_map_cannot(stripes, projection):
    accuracies = {}
    for maps in (1, 4):
        method = DPLLM(**SETTINGS | {"maps": maps}, projection=projection, init_std=2.0, seed=1)
        weights, bias = train_without_privacy(method, *stripes, lambda done, steps: None)
        found = Maps(weights=weights, bias=bias, temperature=1.0, told={}).predictions(stripes[0])
        accuracies[maps] = (found == stripes[1]).mean()
    assert accuracies[4] > 0.97
    assert accuracies[4] > accuracies[1] + 0.1


def test_maps_of_a_release_predict_as_it_does(stripes):
    images, labels = stripes
    schema = pixel_schema(4, 4, labels=range(2))
    gray = np.rint(images * 255).astype(np.uint8)
    table = {column.name: gray[:, j] for j, column in enumerate(schema.columns[:-1])} | {"label": labels}
    import pyarrow as pa

    gate = Gate(pa.table(table), schema=schema, epsilon=2.0, records=400)
    found = DPLLM(**SETTINGS | {"steps": 3}, centre=0.13).fit(gate)
    maps = released_maps(found, {})
    rows = Rows(numeric=gray / 255.0, codes=np.zeros((400, 0), np.int32))
    assert np.array_equal(maps.predictions(gray / np.float32(255)), found.predictions(rows))
    kind, best, weights = maps.strongest(images[0], 2)
    assert best.shape == (2, 16)
    expected = np.sort(found.importance(rows.rows(slice(1)), of=np.array([kind]))[0])[::-1][:2]
    np.testing.assert_allclose(weights, expected, atol=1e-2)


def test_rows_of_figure_5_are_settings_of_the_method_and_differ():
    rows = list(figure_5.setups(figure_5.PANELS, tuple(figure_5.KINDS), 20))
    assert len(set(rows)) == len(rows)
    assert {s.projection for p, s in rows if p == "projection"} >= {None, 300}
    assert all((s.epsilon == 2 or math.isinf(s.epsilon)) or p == "epsilon" for p, s in rows)
    for _, setup in rows:
        assert setup.method.steps == 2400
        assert setup.method.projection == setup.projection
    assert len({setup.name for _, setup in rows}) == len({setup for _, setup in rows})


def test_runs_that_differ_in_a_fraction_are_kept_apart(tmp_path):
    places = [_beside(tmp_path / Setup(epsilon=epsilon).name, ".partial") for epsilon in (0.2, 0.5)]
    assert places[0] != places[1]
    assert {place.parent for place in places} == {tmp_path}


def test_a_reduced_schedule_says_so_and_is_not_judged(capsys):
    from rich.console import Console

    row = Setup(epsilon=2.0, epochs=2)
    assert figure_5._print(Console(width=120), {("epsilon", row): [0.1]}, 2)
    assert "reduced schedule: 2 of 20 epochs" in capsys.readouterr().out
    assert not figure_5._print(Console(width=120), {("epsilon", Setup(epsilon=2.0)): [0.1]}, 20)
    assert figure_5._print(Console(width=120), {("epsilon", Setup(epsilon=2.0)): [0.94, 0.942]}, 20)
