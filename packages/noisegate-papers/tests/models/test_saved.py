import json

import numpy as np
import pytest

from noisegate import Synthesizer
from noisegate.errors import ModelError
from noisegate.models.folder import MODEL_FILE, read_model, write_model
from noisegate_papers.models.locally_linear import LocallyLinear


@pytest.mark.parametrize(
    "broken",
    [
        {"tensors": {"weights": np.zeros((3, 3, 7), np.float32)}},
        {"tensors": {"bias": np.zeros((3, 2), np.float32)}},
        {"tensors": {"weights": None}},
        {"model": {"temperature": "hot"}},
        {"model": {"centre": None}},
    ],
)
def test_weights_that_do_not_fit_the_schema_are_refused(trained, tmp_path, broken):
    release, tensors, model = read_model(trained.save(tmp_path / "model"))
    tensors = {name: value for name, value in {**tensors, **broken.get("tensors", {})}.items() if value is not None}
    write_model(tmp_path / "broken", release=release, tensors=tensors, model={**model, **broken.get("model", {})})
    with pytest.raises(ModelError, match="broken: the classifier cannot be rebuilt"):
        LocallyLinear.load(tmp_path / "broken")


def test_a_classifier_and_a_synthesizer_are_not_taken_for_each_other(trained, tmp_path):
    folder = trained.save(tmp_path / "model")
    with pytest.raises(ModelError, match=r"holds a classifier, which draws no records: .*noisegate explain"):
        Synthesizer.load(folder)
    release, tensors, _ = read_model(folder)
    write_model(tmp_path / "other", release=release, tensors=tensors, model={"kind": "mixture"})
    assert json.loads((tmp_path / "other" / MODEL_FILE).read_text())["model"] == {"kind": "mixture"}
    with pytest.raises(ModelError, match="holds a model of records, which predicts no label: `noisegate sample`"):
        LocallyLinear.load(tmp_path / "other")
