"""A reservation that is voided while its run is reading: the run stops before its noise, whatever it asks (G-10)."""

import pytest
from tests.shared.stated import kinds

from noisegate.errors import DataError, LedgerError, OptionError
from noisegate.gate.discovery import schema_gate as discovery
from noisegate.gate.sessions import marginals
from noisegate.ledger.ledger import Kind, Ledger
from noisegate.privacy import noise

from .test_session import Kinds

CAP = 2.0
KINDS = ["sums", "gradients", "marginals", "discovery"]


@pytest.fixture
def drawn(monkeypatch):
    """How often noise was drawn, by whatever sampler."""
    seen = []
    for name in ("add_noise", "noisy_counts_above"):
        monkeypatch.setattr(
            noise, name, lambda *_, name=name, **__: seen.append(name) or 1 / 0
        )
    monkeypatch.setattr(
        marginals,
        "_build_measurement",
        lambda request, distance: lambda frame: seen.append("opendp") or 1 / 0,
    )
    return seen


def run(kind, ledger, meddle, monkeypatch):
    """Asks one question of a kind, and meddles while records are read."""
    if kind == "discovery":
        read = discovery.read_counts
        monkeypatch.setattr(
            discovery, "read_counts", lambda *arguments: meddle(60) or read(*arguments)
        )
    _, ask, _ = getattr(
        Kinds(ledger, **({} if kind == "discovery" else {"progress": meddle})), kind
    )()
    ask()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_whose_reservation_is_voided_meanwhile_stops_before_its_noise(
    ledger, drawn, kind, monkeypatch
):
    def meddle(_):
        if ledger.show("clinic")[0].reserved:
            ledger.void(ledger.history("clinic")[-1].reservation, reason="looks stale")

    with pytest.raises(
        LedgerError,
        match=r"void already, by row 3 .*looks stale.*before it drew any noise\. Nothing was",
    ):
        run(kind, ledger, meddle, monkeypatch)
    assert not drawn
    assert kinds(ledger) == [Kind.RESERVE, Kind.VOID]
    assert ledger.show("clinic")[0].spent == 0


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_can_void_a_run_that_draws(ledger, drawn, kind, monkeypatch):
    with pytest.raises((ZeroDivisionError, DataError)):
        run(kind, ledger, lambda _: None, monkeypatch)
    assert len(drawn) == 1
    with pytest.raises(OptionError, match="cannot be given back"):
        ledger.void(ledger.history("clinic")[-1].reservation, reason="looks stale")
    assert ledger.show("clinic")[0].spent > 0.99


def test_a_resumed_run_is_confirmed_too_where_an_earlier_version_had_not(
    ledger, tmp_path, monkeypatch
):
    """A journal of a version that did not confirm: between its look at the ledger and its noise it is voided."""
    journal = tmp_path / "journal"
    with monkeypatch.context() as earlier:
        earlier.setattr(Ledger, "confirm", lambda *_, **__: None)
        Kinds(ledger).gradients(journal)[1]()
    assert kinds(ledger) == [Kind.RESERVE]

    def meddle(_):
        ledger.void(ledger.history("clinic")[-1].reservation, reason="looks stale")

    monkeypatch.setattr(noise, "add_noise", None)
    with pytest.raises(LedgerError, match="void already"):
        Kinds(ledger, progress=meddle).gradients(journal)[1]()
    assert journal.exists()
