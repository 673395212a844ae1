"""Units with several records on the command line: the price, the run, the certificate and what is refused."""

import pytest

UNITS = ["--unit-column", "patient", "--contributions", "3"]


@pytest.fixture
def visits(desk):
    """A desk whose records each name a patient, of whom there are forty."""
    lines = desk.data.read_text().splitlines()
    desk.write_rows([f"{line},p{number % 40}" for number, line in enumerate(lines[1:])], header=f"{lines[0]},patient")
    return desk


def test_the_price_is_for_all_records_of_a_unit(desk, cli):
    plan = ["plan", "--schema", desk.schema, "--epsilon", 1, "--json"]
    alone, together = cli(*plan).json, cli(*plan, *UNITS).json
    assert (together["unit"], together["contributions"]) == ("all records of one patient", 3)
    assert (alone["unit"], alone["contributions"]) == ("record", None)
    for one, several in zip(alone["releases"], together["releases"], strict=True):
        assert several["sensitivity_grid"] == 3 * one["sensitivity_grid"]
        assert several["noise_std"] == pytest.approx(3 * one["noise_std"], rel=1e-6)
    shown = " ".join(cli(*plan[:-1], *UNITS).out.split())
    assert "one unit = all records of one patient, at most 3 used" in shown


def test_a_run_states_the_unit_wherever_it_is_read(visits, cli):
    register = ["ledger", "register", "visits", "--epsilon", 3, "--unit", "all records of one patient"]
    assert cli(*register, "--ledger", visits.ledger).code == 0
    fit = [part if part != "clinic" else "visits" for part in visits.fit(*UNITS, "--json", epsilon="2")]
    ended = cli(*fit)
    assert ended.code == 0
    stated = ended.json["certificate"]["guarantee"]
    assert (stated["unit"], stated["contributions"]) == ("all records of one patient", 3)
    assert "at most 3 used" in (visits.out / "certificate.md").read_text()
    verified = cli("verify", visits.out)
    assert verified.code == 0
    assert "unit: all records of one patient, at most 3 used." in " ".join(verified.out.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--unit-column", "patient"], "go together"),
        (["--contributions", "3"], "go together"),
        ([*UNITS, "--unit", "household"], "give one of the two"),
        (["--unit", "all records of one patient"], "give --unit-column and --contributions"),
        (["--unit-column", "patient", "--contributions", "0"], "from 1 to 1000"),
        (["--unit-column", "doctor", "--contributions", "3"], "unit column 'doctor' is not in the data"),
        (["--unit-column", "job", "--contributions", "3"], "'job' is described in the schema"),
        ([*UNITS, "--adjacency", "replace-one", "--records", "200"], "use adjacency='add-remove'"),
        (UNITS, "costs for different privacy units cannot be added up"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_spent(options, message, visits, cli):
    ended = cli(*visits.fit(*options))
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
    assert visits.account().spent == 0
    assert not visits.out.exists()
