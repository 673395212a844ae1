"""What the certificate of a fit says of the discovery that its schema was bought with."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean
from tests.shared.stated import sampled

import noisegate as ng
from noisegate.errors import ModelError
from noisegate.gate.discovery.schema_gate import discover_schema
from noisegate.gate.gate import Gate
from noisegate.methods.registry import method_named
from noisegate.models.folder import verify_model, write_model
from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate, render
from noisegate.privacy.events import Adjacency
from noisegate.privacy.schema_certificate import (
    DISCOVERY_KEY,
    certificate_path,
    certificate_text,
    check_discovery_claim,
    discovery_beside,
    discovery_claim,
)
from noisegate.schema import Schema
from noisegate_evaluate.reporting.promise import promised

KINDS = {"age": "integer", "ill": "boolean"}


def people(rows=800):
    return pd.DataFrame(
        {"age": np.arange(rows) % 60 + 20, "ill": np.arange(rows) % 3 == 0}
    )


@pytest.fixture(scope="module")
def discovery_result():
    return discover_schema(people(), epsilon=1.0, delta=1e-6, kinds=KINDS, label="ill")


@pytest.fixture
def path(discovery_result, tmp_path):
    path = tmp_path / "schema.toml"
    path.write_bytes(discovery_result.toml.encode())
    certificate_path(path).write_text(certificate_text(discovery_result.certificate))
    return path


def released(discovery_result, **options):
    gate = Gate(
        people(),
        schema=discovery_result.schema,
        epsilon=2.0,
        **{"discovery": discovery_result.certificate, **options},
    )
    return method_named("dp-merf")(frequencies=5).query(gate)


def test_the_certificate_names_the_discovery_and_the_sum(discovery_result):
    release = released(discovery_result)
    claim = release.certificate.public[DISCOVERY_KEY]
    assert claim["digest"] == discovery_result.certificate.digest()
    assert claim["epsilon"] == 1.0
    assert claim["delta"] == 1e-6
    assert Certificate.from_json(claim["certificate"]) == discovery_result.certificate
    events = (*discovery_result.certificate.events, *release.certificate.events)
    exact = accounting.epsilon(events, 1.1e-5, Adjacency.ADD_REMOVE)
    assert exact <= claim["together"]["epsilon"] < exact + 1e-5 < 2.5
    assert claim["together"]["delta"] == 1.1e-5
    check_discovery_claim(
        Certificate.from_json(json.loads(json.dumps(release.certificate.to_json())))
    )
    page = render(release.certificate)
    assert "estimated with (1, 1e-06)-differential privacy" in page
    assert claim["digest"] in page
    sentence = re.search(
        r"ε of both together: schema (\S+) \+ table 2 = (\S+) at δ = 1e-05\.", page
    )
    costs = [
        accounting.epsilon(priced, 1e-5, Adjacency.ADD_REMOVE)
        for priced in (discovery_result.certificate.events, events)
    ]
    assert all(
        cost <= float(stated) < cost + 1e-3
        for cost, stated in zip(costs, sentence.groups(), strict=True)
    )
    shown, alone = (
        promised(printed)
        for printed in (release, released(discovery_result, discovery=None))
    )  # by the public page
    assert shown["together"].epsilon == float(sentence[2])
    assert shown["right"] > alone["right"]


def test_without_a_discovery_nothing_is_said(discovery_result):
    certificate = released(discovery_result, discovery=None).certificate
    assert DISCOVERY_KEY not in certificate.public
    assert "bought" not in render(certificate)
    check_discovery_claim(certificate)


def test_costs_for_others_are_not_added_up(discovery_result):
    certificate = released(
        discovery_result, adjacency="replace-one", records=800
    ).certificate
    assert certificate.public[DISCOVERY_KEY]["together"] is None
    assert "is additional and cannot be combined" in render(certificate)
    check_discovery_claim(certificate)


def test_beside_steps_both_are_added(discovery_result):
    fit = released(discovery_result).certificate
    step = sampled(rate=0.1, steps=9, sensitivity=10.0, noise_std=100.0)
    assert discovery_claim(discovery_result.certificate, fit, (step,))["together"] == {
        "epsilon": 3.0,
        "delta": 1.1e-5,
    }


@pytest.mark.parametrize(
    "edit",
    [
        lambda claim: claim.update(epsilon=0.5),
        lambda claim: claim.update(delta=1e-9),
        lambda claim: claim.update(digest="0" * 64),
        lambda claim: claim.update(more=1),
        lambda claim: claim.update(together=None),
        lambda claim: claim.update(together=2.0),
        lambda claim: claim["together"].update(epsilon=2.0),
        lambda claim: claim["together"].update(delta="x"),
        lambda claim: claim.pop("together"),
        lambda claim: claim.pop("certificate"),
        lambda claim: claim.update(certificate={}),
        lambda claim: claim["certificate"]["events"].pop(),
        lambda claim: claim["certificate"]["guarantee"].update(epsilon=0.5),
        lambda claim: claim["certificate"]["hashes"].clear(),
    ],
)
def test_a_false_statement_is_refused(discovery_result, edit):
    stated = json.loads(json.dumps(released(discovery_result).certificate.to_json()))
    edit(stated["public"][DISCOVERY_KEY])
    with pytest.raises(ModelError):
        check_discovery_claim(Certificate.from_json(stated))


def test_verify_refuses_a_model_that_states_too_little(discovery_result, tmp_path):
    release = released(discovery_result)
    tensors = {"x": np.zeros(1)}
    verify_model(
        write_model(tmp_path / "right", release=release, tensors=tensors, model={})
    )
    claim = {
        **release.certificate.public[DISCOVERY_KEY],
        "together": {"epsilon": 2.0, "delta": 1.1e-5},
    }
    false = replace(
        release.certificate, public={**release.certificate.public, DISCOVERY_KEY: claim}
    )
    folder = write_model(
        tmp_path / "wrong",
        release=replace(release, certificate=false),
        tensors=tensors,
        model={},
    )
    with pytest.raises(ModelError, match="another cost or digest of the discovery"):
        verify_model(folder)


def test_the_certificate_beside_a_schema_is_found_also_when_the_schema_was_corrected(
    discovery_result, path
):
    assert discovery_beside(path) == discovery_result.certificate
    path.write_text(path.read_text() + "\n# corrected\n")
    assert discovery_beside(path) == discovery_result.certificate


def test_a_schema_that_nobody_discovered_has_none(tmp_path):
    path = tmp_path / "schema.toml"
    Schema((boolean("a"),)).to_toml(path)
    assert discovery_beside(path) is None
    assert discovery_beside(tmp_path / "absent.toml") is None


def test_a_missing_and_a_broken_certificate_are_named(path):
    proof = certificate_path(path)
    stated = json.loads(proof.read_text())
    stated["events"].pop()
    proof.write_text(json.dumps(stated))
    with pytest.raises(ModelError, match="a discovery of its columns has"):
        discovery_beside(path)
    proof.unlink()
    with pytest.raises(
        ModelError,
        match=r"its certificate .*schema\.toml\.certificate\.json is missing",
    ):
        discovery_beside(path)


def test_a_certificate_of_other_columns_or_of_a_fit_is_refused_before_anything_is_read(
    discovery_result,
):
    other = Schema((boolean("ill"), boolean("wealthy")))
    with pytest.raises(ModelError, match="column 'wealthy' is not among those"):
        Gate(
            people(), schema=other, epsilon=1.0, discovery=discovery_result.certificate
        )
    with pytest.raises(ModelError, match="not that of a discovered schema"):
        Gate(
            people(),
            schema=discovery_result.schema,
            epsilon=1.0,
            discovery=released(discovery_result).certificate,
        )


def test_synthesize_finds_it_or_is_given_it(discovery_result, path):
    few = {
        "method": "dp-merf",
        "frequencies": 5,
        "hidden": (4,),
        "fit_options": {"steps": 2},
    }
    model = ng.synthesize(people(), schema=path, epsilon=2.0, **few)
    assert (
        model.certificate.public[DISCOVERY_KEY]["digest"]
        == discovery_result.certificate.digest()
    )
    model = ng.synthesize(
        people(),
        schema=discovery_result.schema,
        epsilon=2.0,
        discovery=discovery_result.certificate,
        **few,
    )
    assert (
        model.certificate.public[DISCOVERY_KEY]["digest"]
        == discovery_result.certificate.digest()
    )
