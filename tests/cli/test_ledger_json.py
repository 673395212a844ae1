"""`noisegate ledger register --json`: what was registered, for programs."""


def test_register_says_what_it_registered(desk, cli):
    ended = cli("ledger", "register", "ward", "--epsilon", 3, "--ledger", desk.ledger, "--json")
    assert ended.json == {
        "dataset": "ward",
        "epsilon": 3.0,
        "delta": 1e-5,
        "adjacency": "add-remove",
        "unit": "record",
        "ledger": str(desk.ledger),
    }
