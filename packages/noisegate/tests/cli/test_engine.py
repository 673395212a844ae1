"""`fit --engine ray`: what is refused, before anything is spent."""

import pytest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "spark"], "must be local or ray"),
        (["--address", "head:6379"], "give --engine ray"),
        (["--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster could be joined"),
        (["--engine", "ray", "--resume"], "sums no records"),
    ],
)
def test_what_an_engine_cannot_do_is_refused_and_nothing_is_spent(options, message, desk, cli):
    ended = cli(*desk.fit(*options))
    assert ended.code == 2 and message in " ".join(ended.err.split()) and desk.account().spent == 0
    assert not desk.out.exists() and not list(desk.out.parent.glob("*.partial"))


def test_a_training_on_whole_samples_is_refused_and_nothing_is_written(desk, cli):
    told = ["--epsilon", 1, "--out", desk.out, "--method", "dp-sinkhorn", "--records", 200, "--engine", "ray"]
    ended = cli("fit", desk.data, "--schema", desk.schema, *told)
    assert ended.code == 2 and "more than sums" in " ".join(ended.err.split())
    assert not desk.out.exists() and not list(desk.out.parent.glob("*.partial"))
