import pytest
from tests.shared.stated import certificate

from noisegate import DPMERF
from noisegate.errors import OptionError
from noisegate.methods.registry import make_for, method_named, method_of
from noisegate.schema import Boolean, Schema
from noisegate_papers.methods.dp_llm import DPLLM


def test_a_classifier_is_no_maker_of_records():
    assert method_named("dp-llm")(maps=3) == DPLLM(maps=3)
    assert method_named("dp-merf")(frequencies=7) == DPMERF(frequencies=7)
    schema = Schema((Boolean(name="x"), Boolean(name="y")), label="y")
    assert make_for("dp-llm", schema, {"maps": 3}) == DPLLM(maps=3)
    with pytest.raises(
        OptionError,
        match=r"method='dp-llm' trains a classifier .*noisegate fit --method dp-llm",
    ):
        method_named("dp-llm", makes="records")
    with pytest.raises(
        OptionError, match=r"frequencies=7: dp-llm has no such setting; it has .*maps"
    ):
        method_named("dp-llm")(frequencies=7)
    assert method_of(
        certificate(method="dp-llm", public={"settings": DPLLM(maps=3).to_json()})
    ) == DPLLM(maps=3)


def test_an_unknown_method_in_a_certificate_is_refused():
    with pytest.raises(OptionError, match="method='other'"):
        method_of(certificate(method="other", public={"settings": {}}))
