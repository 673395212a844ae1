"""A fit that ends far from its release is done, kept, and says so: in Python, in the folder, on the command line."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import noisegate as ng
from noisegate import Gate, Pairwise, Synthesizer
from noisegate.errors import FitWarning
from noisegate.schema import Integer, Schema

SCHEMA = Schema([Integer(name=name, lower=0, upper=9) for name in "abc"])
FAR = {"components": 1, "steps": 5}
SAID = r"far from its release: the distance is .* at no cost: noisegate.Pairwise\(seed=1"


def alike():
    hidden = np.arange(20_000) % 10
    return pd.DataFrame({name: hidden for name in "abc"})


def test_in_python_it_is_a_warning_and_stands_in_the_model(tmp_path):
    with pytest.warns(FitWarning, match=SAID):
        model = ng.fit(alike(), schema=SCHEMA, epsilon=10.0, method="pairwise", fit_options=FAR, out=tmp_path / "model")
    assert model.summary.discrepancy > 2
    kept = Synthesizer.load(tmp_path / "model").summary
    assert kept == model.summary and "far from its release" in kept.notes["warning"]
    with pytest.warns(FitWarning, match=SAID):
        Pairwise(fit_options=FAR).fit(Gate(alike(), schema=SCHEMA, epsilon=10.0))


def test_where_warnings_are_errors_the_model_is_not_lost():
    with warnings.catch_warnings(action="error"):
        model = ng.synthesize(alike(), schema=SCHEMA, epsilon=10.0, method="pairwise", fit_options=FAR)
    assert "far from its release" in model.summary.notes["warning"]


@pytest.mark.parametrize("json_too", [False, True])
def test_the_command_line_says_it_on_standard_error_and_in_json(cli, tmp_path, json_too):
    alike().to_csv(tmp_path / "data.csv", index=False)
    SCHEMA.to_toml(tmp_path / "schema.toml")
    model = tmp_path / "model"
    options = ["--schema", tmp_path / "schema.toml", "--epsilon", 10, "--method", "pairwise", "--out", model]
    more = ["--json"] if json_too else []
    ended = cli("fit", tmp_path / "data.csv", *options, "--set", f"fit_options={json.dumps(FAR)}", *more)
    assert ended.code == 0 and ended.err.count("far from its release") == 1
    if json_too:
        (said,) = json.loads(ended.out)["warnings"]
        assert said == Synthesizer.load(tmp_path / "model").summary.notes["warning"]
        options[-1] = tmp_path / "near"
        assert json.loads(cli("fit", tmp_path / "data.csv", *options, "--json").out)["warnings"] == []
