"""A stream that an earlier version began, with the price of corrections of then, goes on, and its folder is cleaned."""

import shutil

import numpy as np
import pyarrow as pa
import pytest

from .names import HERE, UserError, fit_period, verify


def test_a_stream_of_before_goes_on_as_it_was_stated(tmp_path):
    """Two of its three periods were answered by a version that kept seals, and priced exact withdrawals."""
    shutil.copytree(HERE / "stream", tmp_path / "stream")
    plan = tmp_path / "stream" / "stream.json"
    folder = tmp_path / "stream" / "stream.private"
    before = verify(tmp_path / "stream" / "m2").certificate
    assert verify(tmp_path / "stream" / "m1").recomputed_epsilon <= 1

    march = pa.table({"ill": [True, False] * 50, "old": [False] * 100})
    options = {"stream": plan, "withdrawn": march.slice(0, 3), "out": tmp_path / "m3"}
    last = fit_period(march, after=tmp_path / "stream" / "m2", **options).certificate
    assert last.events == before.events
    assert {event.corrected for event in last.events} == {3}
    assert last.stream.plan == before.stream.plan
    assert last.stream.period == 3
    assert verify(tmp_path / "m3").recomputed_epsilon <= 1

    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".npz") == [
        "plan"
    ]
    assert all(np.load(path).files == ["noisy"] for path in folder.glob("*.npz"))
    with pytest.raises(
        UserError, match="planned for 3 periods, and all of them are released"
    ):
        fit_period(march, stream=plan, after=tmp_path / "m3")
