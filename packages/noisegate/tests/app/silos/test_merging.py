"""Releases of several silos, added up: what comes out, what it costs, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean

from noisegate import Certificate, Pairwise, Schema, merge, release, synthesize, verify
from noisegate.app.silos.merging import add_up
from noisegate.errors import ModelError, OptionError
from noisegate.privacy import accounting

from .conftest import ONE_ROUND, SCHEMA, SIZES, TABLES


def test_sums_and_variances_add_up(answers):
    released = answers(
        epsilon={"north": 1000.0, "south": 1000.0, "west": 500.0}, **ONE_ROUND
    )
    merged = add_up(released)
    for name, values in merged.values.items():
        assert np.allclose(values, sum(release.values[name] for release in released))
        assert merged.noise_std[name] == pytest.approx(
            np.hypot.reduce([release.noise_std[name] for release in released])
        )
    # Each record counts once, whatever silo it is in.
    assert merged.values["counts"].sum() == pytest.approx(sum(SIZES.values()), abs=5)


def test_merged_silos_are_as_good_as_the_pooled_table_but_for_the_noise(answers):
    first = add_up(answers(epsilon=1000.0))
    model = merge(answers(epsilon=1000.0, after=first), after=first)
    pooled = pa.concat_tables(TABLES.values())
    ages = np.array(model.sample(20_000, seed=0)["age"].to_pylist())
    assert abs(ages.mean() - np.mean(pooled["age"].to_pylist())) < 2
    assert model.certificate.silos is not None


def test_disjoint_silos_cost_the_largest_epsilon(answers):
    epsilon_of = {"north": 1.0, "south": 0.5, "west": 2.0}
    released = answers(epsilon=epsilon_of, **ONE_ROUND)
    disjoint = add_up(released, stated_by="the registry").certificate
    assert disjoint.epsilon == 2.0
    assert disjoint.check() == accounting.epsilon(released[2].certificate.events, 1e-5)
    overlapping = add_up(released, overlapping=True).certificate
    every = [event for release in released for event in release.certificate.events]
    assert overlapping.check() == accounting.epsilon(every, 1e-5) > 2.0
    assert "the registry states" in str(disjoint.card().facts["silos"])
    assert "composed" in overlapping.card().facts["silos"]


def test_the_largest_delta_is_that_of_all(answers):
    released = [
        release(TABLES[name], silo=name, epsilon=1.0, delta=delta, **ONE_ROUND)
        for name, delta in (("north", 1e-6), ("south", 1e-5))
    ]
    certificate = add_up(released).certificate
    assert certificate.epsilon == 1.0
    assert certificate.delta == 1e-5
    assert certificate.check() <= 1.0


def test_a_model_folder_lists_the_silos_and_can_be_recomputed(answers, tmp_path):
    released = answers(**ONE_ROUND)
    merge(released, stated_by="the registry", out=tmp_path / "model")
    verified = verify(tmp_path / "model")
    members = verified.certificate.silos.members
    assert [silo.certificates for silo in members] == [
        (release.certificate.digest(),) for release in released
    ]
    page = (tmp_path / "model" / "certificate.md").read_text()
    assert "3 silos were added up: north, south, west. the registry states" in page
    assert Certificate.from_json(verified.certificate.to_json()) == verified.certificate


def test_both_rounds_are_in_the_certificate(answers):
    first = add_up(answers())
    done = add_up(answers(after=first), after=first)
    for silo in done.certificate.silos.members:
        assert len(silo.certificates) == 2
        assert {event.name for event in silo.events} == {
            "fine",
            "coarse",
            "counts",
            "one-way",
            "pairs",
        }
    assert 0.999 < done.certificate.check() <= 1


def test_a_round_before_the_last_is_a_release(answers, tmp_path):
    merged = merge(answers(), out=tmp_path / "first")
    assert verify(tmp_path / "first").certificate == merged.certificate
    assert set(merged.values) == {"fine", "coarse"}


def test_one_folder_and_one_silo_twice_are_refused(answers):
    north, south, _ = answers(**ONE_ROUND)
    with pytest.raises(OptionError, match="1 given; give those of two silos"):
        merge([north])
    with pytest.raises(
        OptionError, match="silo 'north' appears twice, with the same release"
    ):
        merge([north, north])
    again = release(TABLES["north"], silo="north", epsilon=1.0, **ONE_ROUND)
    with pytest.raises(
        OptionError, match="silo 'north' appears twice, with two releases"
    ):
        merge([north, south, again])
    with pytest.raises(OptionError, match="merged already"):
        merge([add_up([north, south]), south])


def test_other_plans_are_refused_and_it_is_said_in_what_they_differ(answers):
    (north,) = answers(silos=("north",), **ONE_ROUND)
    (south,) = answers(
        silos=("south",), schema=SCHEMA, method=Pairwise(cells=128, pairs="none")
    )
    with pytest.raises(OptionError, match="pairs is 'auto' and 'none'"):
        merge([north, south])
    public = {**south.certificate.public, "plan": "of dp-hp"}
    other = replace(
        south, certificate=replace(south.certificate, method="dp-hp", public=public)
    )
    with pytest.raises(OptionError, match="method is 'pairwise' and 'dp-hp'"):
        merge([north, other])
    small = Schema([boolean("ill")])
    foreign = release(
        TABLES["south"].select(["ill"]), silo="south", epsilon=1.0, schema=small
    )
    with pytest.raises(OptionError, match="their schemas differ"):
        merge([north, foreign])


def test_releases_of_a_fit_are_not_of_a_silo(answers):
    (north,) = answers(silos=("north",), **ONE_ROUND)
    fitted = synthesize(TABLES["south"], epsilon=1.0, **ONE_ROUND)
    with pytest.raises(OptionError, match="names no silo and no plan"):
        merge([north, fitted.release])


def test_rounds_are_not_mixed(answers):
    first = add_up(answers())
    other = add_up(answers())
    second = answers(after=first)
    with pytest.raises(OptionError, match="none is given"):
        merge(second)
    with pytest.raises(
        OptionError, match="silo 'north' continued from the merged release"
    ):
        merge(second, after=other)
    with pytest.raises(OptionError, match="answered the first round"):
        merge(answers(), after=first)
    with pytest.raises(
        OptionError, match="the round before is of the silos north, south, west"
    ):
        merge(second[:2], after=first)


def test_who_states_that_silos_are_disjoint_goes_with_that(answers):
    with pytest.raises(OptionError, match="stated_by='me'"):
        merge(answers(**ONE_ROUND), overlapping=True, stated_by="me")


def test_a_plan_that_is_not_that_of_its_settings_is_refused(answers):
    false = []
    for answer in answers(**ONE_ROUND):
        public = {**answer.certificate.public, "plan": "0" * 64}
        false.append(
            replace(answer, certificate=replace(answer.certificate, public=public))
        )
    with pytest.raises(
        ModelError,
        match="states the plan 0000000000000000, and its settings are those of",
    ):
        merge(false)


def test_tampered_values_and_certificates_are_refused(answers, tmp_path):
    folders = []
    for name in ("north", "south"):
        release(TABLES[name], silo=name, epsilon=1.0, out=tmp_path / name, **ONE_ROUND)
        folders.append(tmp_path / name)
    path = folders[0] / "release.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelError, match="hashes differ"):
        merge(folders)
    path.write_bytes(whole)
    certificate_file = folders[0] / "certificate.json"
    content = json.loads(certificate_file.read_text())
    content["guarantee"]["epsilon"] = 0.5
    certificate_file.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="do not rely on it"):
        merge(folders)
