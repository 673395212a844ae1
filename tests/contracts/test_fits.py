"""What every fit keeps to: it takes the planned steps, is kept whole, and comes back from what it released."""

import numpy as np
import pytest
from tests.contracts.blind_noise import Blind, of_method, pictures, use

import noisegate
from noisegate import Budget, Gate, Release
from noisegate.methods.gradient import STATE_FILE, GradientMethod
from noisegate.methods.registry import METHODS, make_for, method_of
from noisegate.models.folder import verify_model
from noisegate.testing import made_up

OF_STEPS = [name for name in METHODS if issubclass(METHODS[name], GradientMethod)]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return [pictures(second, tmp_path_factory.mktemp("images") / "x") for second in (0, 1)]


def said(model, schema):
    """What a model says: records, or the scores of a classifier."""
    if hasattr(model, "sample"):
        return str(model.sample(20, seed=1))
    return model.scores(made_up(schema.unlabelled().layout, 20)).tolist()


@pytest.mark.parametrize("name", METHODS)
def test_what_is_fitted_is_kept_whole_and_comes_back_from_its_release(name, tmp_path, images):
    if name in ("aim", "mst"):
        pytest.importorskip("mbi", reason="needs the extra marginals")
    (data, _), schema, settings, options = of_method(name, tmp_path, images)
    model = noisegate.fit(
        data, schema=schema, epsilon=3.0, method=name, out=tmp_path / "m", device="cpu", **options, **settings
    )
    assert verify_model(tmp_path / "m").recomputed_epsilon <= 3.0
    again = noisegate.load(tmp_path / "m")
    assert again.certificate == model.certificate
    release = Release.load(tmp_path / "m")
    method = method_of(release.certificate)
    assert method.plan(schema, Budget(epsilon=3.0)).events == release.certificate.events
    made = method.fit_release(release, device="cpu") if method.makes == "records" else method.classifier(release)
    assert said(model, schema) == said(again, schema) == said(made, schema)


@pytest.mark.parametrize("name", OF_STEPS)
def test_a_run_that_is_taken_up_again_ends_with_the_same_bits(name, tmp_path, images, monkeypatch):
    """Or begins anew, where a run cannot be resumed."""
    (data, _), schema, settings, _ = of_method(name, tmp_path, images)
    method, blind, done = make_for(name, schema, settings), Blind(), []
    use(monkeypatch, blind)

    def run(report, **more):
        gate = Gate(data, schema=schema, epsilon=3.0, records=1000)
        return method.query(gate, report=report, **more).values

    def stop(step):
        if step == 2:
            raise KeyboardInterrupt

    whole = run(done.append)
    assert done == [1, 2, 3]
    blind.asked = 0
    with pytest.raises(KeyboardInterrupt):
        run(stop, folder=tmp_path)
    resumed = method.resumable and not method.plan(schema, Budget(epsilon=3.0)).releases
    assert (tmp_path / STATE_FILE).exists() == resumed
    blind.asked, done = 2 * resumed, []
    again = run(done.append, folder=tmp_path)
    assert done == ([3] if resumed else [1, 2, 3]) and all(np.array_equal(again[part], whole[part]) for part in whole)
