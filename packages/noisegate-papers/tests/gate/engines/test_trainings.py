"""Methods that train on gradients run on a cluster, those that ask for more are refused; Ray is played here."""

import pyarrow.parquet as pq
import pytest

from noisegate import Gate, fit
from noisegate.errors import OptionError
from noisegate.gate.engines.ray import RayEngine
from noisegate.gate.session import Session
from noisegate.schema.decode import decode
from noisegate.testing import made_up
from noisegate_evaluate.auditing.examples import example

ROWS = 60
QUICK = ("dp-llm", "dp-cgan")
TRAININGS = (
    "dp-dre",
    "dp-feta",
    "dp-gan",
    "dp-gan-ft",
    "dp-gan-mi",
    "dp-mepf-trained",
    "dp-sgd",
    "dpdm",
    "psg",
)


def gate_and_method(name, folder):
    method, schema, _ = example(name, schema=None, settings={}, folder=folder)
    pq.write_table(decode(made_up(schema.layout, ROWS), schema), folder / "x.parquet")
    return Gate(
        folder / "x.parquet",
        schema=schema,
        epsilon=90.0,
        records=ROWS,
        engine=RayEngine(workers=2),
    ), method


@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in TRAININGS)],
)
def test_a_training_runs_on_a_cluster(name, joined, tmp_path):
    gate, method = gate_and_method(name, tmp_path)
    done = []
    release = method.query(gate, report=done.append)
    assert release.certificate.check() <= 90.0
    assert len(done) == done[-1] and joined.called.count("totals") >= 2 * len(done)
    assert joined.hired == 2 and not joined.alive


@pytest.mark.parametrize(
    "name", ["dp-sinkhorn", "gs-wgan", "pate-gan", "g-pate", "datalens"]
)
def test_a_training_on_whole_samples_or_shards_is_refused(name, joined, tmp_path):
    gate, method = gate_and_method(name, tmp_path)
    with pytest.raises(OptionError, match="more than sums"):
        method.query(gate)
    assert not joined.hired


def test_a_training_that_is_stopped_goes_on_on_a_cluster_with_another_key(
    joined, tmp_path, monkeypatch
):
    method, schema, _ = example(
        "dp-cgan", schema=None, settings={"steps": 4}, folder=tmp_path
    )
    pq.write_table(decode(made_up(schema.layout, ROWS), schema), tmp_path / "x.parquet")
    right, keys = Session.step, []

    def step(session, parameters):
        keys.append(session._steps.samples.key)
        if len(keys) == 3:
            raise KeyboardInterrupt
        return right(session, parameters)

    monkeypatch.setattr(Session, "step", step)
    options = {"engine": RayEngine(workers=2), "out": tmp_path / "model"}
    with pytest.raises(KeyboardInterrupt):
        fit(
            tmp_path / "x.parquet",
            schema=schema,
            epsilon=9.0,
            method=method,
            records=ROWS,
            **options,
        )
    assert not joined.alive
    model = fit(tmp_path / "x.parquet", resume=True, device="cpu", **options)
    assert model.certificate.epsilon == 9.0 and not joined.alive
    assert len(keys) == 3 + 2 and len(set(keys)) == 2 and keys[2] != keys[3]
    with pytest.raises(OptionError, match=r"nothing to resume|reads no records"):
        fit(tmp_path / "x.parquet", resume=True, **options)
