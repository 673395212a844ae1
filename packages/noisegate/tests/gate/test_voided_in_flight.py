"""A reservation that is voided while its run is reading: the run stops before its noise, whatever it asks (G-10)."""

import numpy as np
import pandas as pd
import pytest
import torch

from noisegate.discovery import schema_gate as discovery
from noisegate.discovery.schema_gate import SchemaGate
from noisegate.errors import DataError, LedgerError, OptionError
from noisegate.features.binning import NumericBins
from noisegate.features.feature_map import Counts
from noisegate.gate.gate import Gate
from noisegate.gate.queries import marginals
from noisegate.ledger.ledger import Kind, Ledger
from noisegate.privacy import noise
from noisegate.privacy.gradient_plan import GradientPlan
from noisegate.privacy.marginal_plan import MarginalPlan
from noisegate.privacy.plan import Plan, Query
from noisegate.schema import Boolean, Continuous, Schema

from .conftest import kinds

CAP = 2.0
SCHEMA = Schema((Continuous(name="x", lower=0.0, upper=1.0), Boolean(name="y")), label="y")
AT = {"w": torch.zeros(1)}


def people():
    return pd.DataFrame({"x": np.linspace(0, 1, 60), "y": [True, False] * 30})


@pytest.fixture
def drawn(monkeypatch):
    """How often noise was drawn, by whatever sampler."""
    seen = []
    for name in ("add_noise", "noisy_counts_above"):
        monkeypatch.setattr(noise, name, lambda *_, name=name, **__: seen.append(name) or 1 / 0)
    monkeypatch.setattr(marginals, "_measurement", lambda plan: lambda frame: seen.append("opendp") or 1 / 0)
    return seen


def sums(book, meddle):
    gate = Gate(people(), schema=SCHEMA, epsilon=1.0, progress=meddle, **book)
    counts = Query(name="counts", dim=1, columns=2, norm=1.0, share=1.0, nonnegative=True)
    gate.sum(Plan(queries=(counts,)).calibrate(gate.budget), {"counts": Counts()}, method="test", public={})


def gradients(book, meddle, journal=None):
    gate = Gate(people(), schema=SCHEMA, epsilon=1.0, progress=meddle, **book)
    plan = GradientPlan(name="g", steps=3, sampling_probability=0.5, clip_norm=1.0, parameters={"w": (1,)}).calibrate(
        gate.budget
    )

    def loss(parameters, numeric, codes):
        return (parameters["w"] * numeric).sum()

    gate.gradients(plan, loss, method="test", public={}, journal=journal).step(AT)


def opendp(book, meddle):
    gate = Gate(people(), schema=SCHEMA, epsilon=1.0, progress=meddle, **book)
    options = {"options": {"iterations": 20}, "sizes": (2, 2), "candidates": ((0, 1),)}
    plan = MarginalPlan.calibrate(gate.budget, name="mst", algorithm="MST", **options)
    gate.marginals(plan, (NumericBins((0.5,), nullable=False),), method="mst", public={})


def schema(book, meddle, monkeypatch):
    read = discovery.read_counts
    monkeypatch.setattr(discovery, "read_counts", lambda *asked: meddle(60) or read(*asked))
    SchemaGate(people(), epsilon=1.0, kinds={"x": "continuous", "y": "boolean"}, **book).discover()


@pytest.mark.parametrize("asked", [sums, gradients, opendp, schema])
def test_a_run_whose_reservation_is_voided_meanwhile_stops_before_its_noise(ledger, drawn, asked, monkeypatch):
    if asked is opendp:
        pytest.importorskip("mbi", reason="needs the extra noisegate[marginals]")

    def meddle(_):
        if ledger.show("clinic")[0].reserved:
            ledger.void(ledger.history("clinic")[-1].reservation, reason="looks stale")

    more = [monkeypatch] if asked is schema else []
    with pytest.raises(
        LedgerError, match=r"void already, by row 3 .*looks stale.*before it drew any noise\. Nothing was"
    ):
        asked({"ledger": ledger, "dataset": "clinic"}, meddle, *more)
    assert not drawn and kinds(ledger) == [Kind.RESERVE, Kind.VOID]
    assert ledger.show("clinic")[0].spent == 0


@pytest.mark.parametrize("asked", [sums, gradients, opendp, schema])
def test_nobody_can_void_a_run_that_draws(ledger, drawn, asked, monkeypatch):
    if asked is opendp:
        pytest.importorskip("mbi", reason="needs the extra noisegate[marginals]")
    more = [monkeypatch] if asked is schema else []
    with pytest.raises((ZeroDivisionError, DataError)):
        asked({"ledger": ledger, "dataset": "clinic"}, lambda _: None, *more)
    assert len(drawn) == 1
    with pytest.raises(OptionError, match="cannot be given back"):
        ledger.void(ledger.history("clinic")[-1].reservation, reason="looks stale")
    assert ledger.show("clinic")[0].spent > 0.99


def test_a_resumed_run_is_confirmed_too_where_an_earlier_version_had_not(ledger, tmp_path, monkeypatch):
    """A journal of a version that did not confirm: between its look at the ledger and its noise it is voided."""
    book, journal = {"ledger": ledger, "dataset": "clinic"}, tmp_path / "journal"
    with monkeypatch.context() as earlier:
        earlier.setattr(Ledger, "confirm", lambda *_: None)
        gradients(book, None, journal)
    assert kinds(ledger) == [Kind.RESERVE]

    def meddle(_):
        ledger.void(ledger.history("clinic")[-1].reservation, reason="looks stale")

    monkeypatch.setattr(noise, "add_noise", None)
    with pytest.raises(LedgerError, match="void already"):
        gradients(book, meddle, journal)
    assert journal.exists()
