"""Units with several records on the command line: the price, the run, the certificate and what is refused."""

import pytest

from .conftest import argv

UNITS = argv("--unit-column patient --contributions 3")


@pytest.fixture
def visits(desk):
    """A desk whose records each name a patient, of whom there are forty."""
    lines = desk.data.read_text().splitlines()
    desk.write_rows(
        [f"{line},p{number % 40}" for number, line in enumerate(lines[1:])],
        header=f"{lines[0]},patient",
    )
    return desk


def test_a_run_states_the_unit_wherever_it_is_read(visits, cli):
    register = [
        *argv("ledger register visits --epsilon 3 --unit"),
        "all records of one patient",
    ]
    assert cli(*register, "--ledger", visits.ledger).code == 0
    fit = [
        part if part != "clinic" else "visits"
        for part in visits.fit(*UNITS, "--json", epsilon="2")
    ]
    ended = cli(*fit)
    assert ended.code == 0
    stated = ended.json["certificate"]["guarantee"]
    assert stated["unit"] == "all records of one patient"
    assert stated["contributions"] == 3
    assert "at most 3 used" in (visits.out / "certificate.md").read_text()
    verified = cli("verify", visits.out)
    assert verified.code == 0
    assert "unit: all records of one patient, at most 3 used." in " ".join(
        verified.out.split()
    )
