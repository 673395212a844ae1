"""A partial schema keeps what is stated, leaves gaps where nothing is, and refuses what cannot be discovered."""

from datetime import UTC, datetime

import pytest
from tests.shared.columns import boolean, categorical, integer

from noisegate.errors import SchemaError
from noisegate.gate.discovery.partial import Gap, PartialSchema, read_partial
from noisegate.schema import (
    Datetime,
    Decimal,
)

FILE = """\
label = "job"
ignore = ["id"]
missing_values = ["", "-"]
[columns.age]
kind = "integer"
lower = 0
upper = 120
[columns.job]
kind = "categorical"
missing = false
[columns.sex]
kind = "categorical"
levels = ["f", "m"]
missing = false
[columns.seen]
kind = "datetime-utc"
lower = 2020-01-01T00:00:00Z
upper = 2021-01-01T00:00:00Z
[columns.member]
kind = "boolean"
[columns.income]
kind = "continuous"
"""


@pytest.fixture
def read(tmp_path):
    def read(text, kinds=None, **options):
        path = tmp_path / "public.toml"
        path.write_bytes(text.encode("utf-8"))
        return read_partial(path, kinds or {}, **options)

    return read


def test_stated_facts_stay_and_the_rest_are_gaps(read):
    columns, label, missing_values = read(FILE)
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    assert columns == {
        "age": integer("age", 0, 120, missing=True),
        "job": Gap(name="job", kind="categorical", missing=False),
        "sex": categorical("sex", "fm"),
        "seen": Datetime(
            name="seen", lower=moment, upper=moment.replace(year=2021), missing=True
        ),
        "member": boolean("member", missing=True),
        "income": Gap(name="income", kind="continuous"),
        "id": None,
    }
    assert label == "job"
    assert missing_values == ("", "-")


def test_options_overrule_the_file(read):
    columns, label, _ = read(
        FILE, {"age": "continuous", "id": "categorical", "new": "ignore"}, label="sex"
    )
    assert columns["age"].kind == "continuous"
    assert columns["id"].kind == "categorical"
    assert columns["new"] is None
    assert label == "sex"


@pytest.mark.parametrize("label", ["nowhere", "id"])
def test_a_label_must_be_a_described_column(label):
    with pytest.raises(
        SchemaError, match=f"label '{label}' is not one of the described columns: age"
    ):
        PartialSchema(
            columns={"age": Gap(name="age", kind="integer"), "id": None}, label=label
        )


@pytest.mark.parametrize(
    "column",
    [
        'kind = "decimal"',
        'kind = "decimal"\nstep = 0.1',
        'kind = "integer"\natoms = [0]',
        'kind = "date"\nstep = 7',
    ],
)
def test_steps_and_atoms_without_bounds_are_refused_and_with_them_kept(read, column):
    with pytest.raises(
        SchemaError,
        match="column 'x': steps and atoms are stated together with bounds; add lower",
    ):
        read(f"[columns.x]\n{column}")
    partial = read(
        '[columns.x]\nkind = "decimal"\nlower = 0\nupper = 1\nstep = 0.1\natoms = [-1]'
    )
    assert partial[0]["x"] == Decimal(
        name="x", lower=0, upper=1, step=0.1, atoms=[-1], missing=True
    )
