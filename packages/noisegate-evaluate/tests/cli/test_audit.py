"""`noisegate audit`: what it prints, and how it ends when a claim holds, is exceeded, or cannot be looked at."""

import pytest

from noisegate.ledger.ledger import Ledger
from noisegate.privacy import noise

QUICK = ["--runs", 8, "--set", "frequencies=5"]


def test_a_claim_that_holds_ends_well_and_costs_nothing(desk, cli):
    before = desk.listing()
    ended = cli("audit", "dp-merf", "--epsilon", 4, *QUICK)
    assert (ended.code, ended.err) == (0, "")
    text = " ".join(ended.out.split())
    assert "nothing found against the claim: dp-merf, epsilon is at least" in text
    assert "claimed 4 at delta = 1e-05, add-remove" in text
    assert "8 runs, by projection, confidence 99.9900%" in text
    assert desk.listing() == before


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(0.05, "the claim is exceeded"), (3, "more noise than stated")],
    ids=["quiet", "loud"],
)
def test_noise_that_is_not_as_stated_ends_with_four(cli, monkeypatch, factor, verdict):
    right = noise.add_noise

    def other(sums, *, noise_std, sampler):
        return right(sums, noise_std=noise_std * factor, sampler=sampler)

    monkeypatch.setattr(noise, "add_noise", other)
    ended = cli("audit", "dp-merf", "--json", *QUICK)
    found = ended.json
    assert (ended.code, found["holds"]) == (4, False)
    assert verdict in found["verdict"]
    assert (found["lower_bound"] > found["claim"]) == (factor < 1)


def test_a_model_is_audited_with_its_own_settings_and_budget(model, fitted, cli):
    spent = Ledger(fitted.ledger).show("clinic")
    found = cli("audit", model, "--runs", 4, "--json").json
    assert (found["method"], found["claim"], found["delta"]) == ("dp-merf", 1.0, 1e-5)
    assert Ledger(fitted.ledger).show("clinic") == spent
    ended = cli("audit", model, "--set", "frequencies=3")
    assert ended.code == 2
    assert "has its own schema and settings" in " ".join(ended.err.split())


def test_what_is_neither_a_model_nor_a_method_is_refused(desk, cli):
    for arguments, words in [
        (["nowhere"], "neither the folder of a model nor a method"),
        (["dp-merf", "--runs", 1], "--runs"),
        (["dp-merf", "--schema", "missing.toml"], "missing.toml"),
    ]:
        ended = cli("audit", *arguments)
        assert ended.code == 2
        assert words in " ".join(ended.err.split())
        assert ended.out == ""
