"""What sessions were asked."""

import pytest

from noisegate.gate.session import Session


@pytest.fixture
def asked(monkeypatch):
    """The maps that sessions were asked, each with the name of its query, in their order."""
    seen, ask = [], Session.ask

    def watched(session, maps):
        seen.extend(maps.items())
        return ask(session, maps)

    monkeypatch.setattr(Session, "ask", watched)
    return seen


def votes_of(asked):
    """The maps of the votes, round for round."""
    return [one for name, one in asked if name.startswith("votes-")]
