"""Title, owner and purpose: they are lines of text, and stay with a model from its fit on."""

import json

import pyarrow as pa
import pytest
from tests.shared.columns import boolean

from noisegate import Schema, fit, load, verify
from noisegate.app.heading import check_heading, heading_of
from noisegate.app.runs.folder import Run
from noisegate.app.streams.periods import fit_period, plan_stream
from noisegate.errors import OptionError
from noisegate.methods.registry import method_of
from noisegate.privacy.certificate import Certificate

TABLE = pa.table({"ill": [True, False] * 100})
SCHEMA = Schema([boolean("ill")])
SAID = {"title": "A survey", "owner": "Data Office", "purpose": "Teaching"}


@pytest.mark.parametrize("text", ["", " ", "two\nlines", "\u202eright", "x" * 501, 7])
@pytest.mark.parametrize("name", SAID)
def test_only_a_line_of_text_is_taken(name, text, tmp_path):
    with pytest.raises(OptionError, match=f"{name}=.* cannot be recorded"):
        check_heading({name: text})
    with pytest.raises(OptionError, match=f"{name}=.* cannot be recorded"):
        fit(TABLE, schema=SCHEMA, epsilon=1.0, out=tmp_path / "model", **{name: text})
    assert not list(tmp_path.iterdir())


def test_they_are_kept_with_a_model_and_its_run(tmp_path):
    model = fit(TABLE, schema=SCHEMA, epsilon=1.0, out=tmp_path / "model", **SAID)
    assert heading_of(load(tmp_path / "model").certificate) == SAID
    assert verify(tmp_path / "model").recomputed_epsilon <= 1.0
    silent = fit(TABLE, schema=SCHEMA, epsilon=1.0).certificate
    assert heading_of(silent) == {}
    assert "heading" not in silent.public
    run = Run(epsilon=1.0, method=method_of(model.certificate), schema=SCHEMA, **SAID)
    run.write(tmp_path)
    again = Run.read(tmp_path)
    assert {name: getattr(again, name) for name in SAID} == SAID


def test_what_an_edited_certificate_states_is_left_out_where_it_is_no_line():
    certificate = fit(TABLE, schema=SCHEMA, epsilon=1.0, **SAID).certificate
    stated = certificate.to_json()
    for broken in ({"title": "a\nb", "owner": 7, "purpose": "Teaching"}, ["x"], 3):
        stated["public"]["heading"] = broken
        edited = Certificate.from_json(json.loads(json.dumps(stated)))
        expected = {"purpose": "Teaching"} if isinstance(broken, dict) else {}
        assert heading_of(edited) == expected


def test_a_stream_keeps_them_from_period_to_period(tmp_path):
    stream = tmp_path / "plan.json"
    plan_stream(stream, schema=SCHEMA, epsilon=1.0, periods=3)
    first = fit_period(TABLE, stream=stream, out=tmp_path / "first", **SAID)
    assert heading_of(first.certificate) == SAID
    february = TABLE.slice(0, 150)
    second = fit_period(february, stream=stream, after=tmp_path / "first", owner="Me")
    assert heading_of(second.certificate) == {**SAID, "owner": "Me"}
