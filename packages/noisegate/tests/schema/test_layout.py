"""Grids, decimals and atoms: what is read is written to the last digit, and nothing else is ever written."""

import math
from datetime import UTC, date, datetime
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from noisegate.errors import SchemaError
from noisegate.schema import (
    Comparison,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Integer,
    Schema,
    decode,
)
from noisegate.schema.encode import encode
from noisegate.schema.layout import (
    next_number,
    numbers_at,
    positions_of,
    previous_number,
    ranks_within,
)
from noisegate_evaluate.reading import encode_tolerantly

CENTS = Decimal(name="x", lower=-1.5, upper=20.0, step=0.01)
COLUMNS = {
    "tenths": (
        Decimal(name="x", lower=0, upper=1, step=0.1),
        [index / 10 for index in range(11)],
    ),
    "cents": (CENTS, [index / 100 for index in range(-150, 2001)]),
    "quarters off zero": (
        Decimal(name="x", lower=0.1, upper=2.1, step=0.25),
        [0.1 + 0.25 * i for i in range(9)],
    ),
    "thousands": (
        Decimal(name="x", lower=0, upper=5000, step=1000),
        [0.0, 1e3, 2e3, 3e3, 4e3, 5e3],
    ),
    "fives": (Integer(name="x", lower=-5, upper=20, step=5), list(range(-5, 21, 5))),
    "two sentinels": (
        Integer(name="x", lower=0, upper=9, atoms=[999, -1]),
        [-1, *range(10), 999],
    ),
    "fives with zero": (
        Integer(name="x", lower=10, upper=30, step=5, atoms=[0]),
        [0, 10, 15, 20, 25, 30],
    ),
    "cents and a code": (
        Decimal(name="x", lower=0, upper=1, step=0.25, atoms=[-7.777]),
        [-7.777, 0, 0.25, 0.5, 0.75, 1],
    ),
    "weeks": (
        Date(
            name="x",
            lower=date(2020, 1, 6),
            upper=date(2020, 2, 3),
            step=7,
            atoms=[date(9999, 12, 31)],
        ),
        [
            *(
                date(2020, 1, 6).toordinal() + 7 * week - date(1970, 1, 1).toordinal()
                for week in range(5)
            ),
            2932896,
        ],
    ),
    "minutes": (
        Datetime(
            name="x",
            lower=datetime(1970, 1, 1),
            upper=datetime(1970, 1, 1, 0, 3),
            step=60,
        ),
        [0, 60_000_000, 120_000_000, 180_000_000],
    ),
}


@pytest.mark.parametrize(("column", "values"), COLUMNS.values(), ids=COLUMNS)
def test_every_value_of_a_column_of_steps_comes_back_and_no_other_is_ever_written(
    column, values
):
    numbers = np.asarray(values)
    if isinstance(column, Decimal):
        numbers = np.array(
            [float(f"{value:.6g}") for value in values]
        )  # as a file says them
    positions = positions_of(column, numbers)
    assert numbers_at(column, positions).tolist() == numbers.tolist()
    assert (np.diff(positions) > 0).all()
    assert positions[0] == 0
    assert positions[-1] == 1
    anywhere = numbers_at(column, np.random.default_rng(0).random(5000))
    assert set(anywhere.tolist()) <= set(numbers.tolist())
    assert len(set(anywhere.tolist())) > 0.8 * len(numbers)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([0.014, 0.0161, 5e9, -math.inf], [0.01, 0.02, 20.0, -1.5]),
        (["0.1", "1e-3", "7"], [0.1, 0.0, 7.0]),
        (pa.array(["0.10", "3.33"]).cast(pa.decimal128(10, 2)), [0.1, 3.33]),
        (np.array([3, 21]), [3.0, 20.0]),
    ],
)
def test_other_numbers_go_to_the_nearest_step_within_the_bounds(cells, expected):
    schema = Schema([CENTS])
    assert (
        decode(encode({"x": pa.array(cells)}, schema), schema)["x"].to_pylist()
        == expected
    )


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()])
def test_an_atom_outside_the_bounds_is_itself_and_its_neighbours_are_not(kind):
    column = Integer(name="x", lower=0, upper=9, atoms=[-1, 999], missing=True)
    schema = Schema([column])
    cells = pa.array([-1, -2, 0, 9, 10, 998, 999, 1000, None]).cast(kind)
    expected = [-1, 0, 0, 9, 9, 9, 999, 9, None]
    encoded = encode({"x": cells}, schema)
    assert decode(encoded, schema)["x"].to_pylist() == expected
    positions, out = encode_tolerantly(column, cells, pa.array([""]))
    assert np.array_equal(positions, encoded.numeric[:, 0], equal_nan=True)
    assert not out.any()


def test_real_numbers_keep_their_scale_beside_atoms_outside_the_bounds():
    column = Continuous(
        name="x", lower=0.3, upper=1e6, atoms=[-9, -1, 0.30000000000000004, 777.7, 1e7]
    )
    numbers = np.array(
        [-9, -1, 0.3, 0.30000000000000004, 0.7, 777.7, 12_345.6, 1e6, 1e7]
    )
    positions = positions_of(column, numbers)
    assert (np.diff(positions[[0, 1, 2, 4, 5, 6, 7, 8]]) > 0).all()
    back = numbers_at(column, positions)
    assert back[[0, 1, 5, 7, 8]].tolist() == [
        -9,
        -1,
        777.7,
        1e6,
        1e7,
    ]
    assert back == pytest.approx(numbers, abs=1e-9)
    assert (
        positions_of(column, [5e6, -4]).tolist()
        == positions_of(column, [1e6, 0.3]).tolist()
    )
    anywhere = numbers_at(column, np.linspace(0, 1, 10_001))
    odd = anywhere[(anywhere < 0.3) | (anywhere > 1e6)]
    assert set(odd.tolist()) == {-9.0, -1.0, 1e7}


def test_what_encodes_a_number_is_a_function_of_that_number_alone_bit_for_bit():
    random = np.random.default_rng(1)
    for column, _ in COLUMNS.values():
        first, last = (
            float(end) / column.units_per_number for end in column.unit_bounds
        )
        numbers = random.uniform(first - 1, last + 1, 999)
        numbers = (
            numbers
            if isinstance(column, Decimal)
            else np.rint(numbers).astype(np.int64)
        )
        together = positions_of(column, numbers)
        alone = np.concatenate(
            [positions_of(column, numbers[[index]]) for index in range(len(numbers))]
        )
        assert together.tobytes() == alone.tobytes()


@pytest.mark.parametrize(("column", "values"), COLUMNS.values(), ids=COLUMNS)
def test_neighbours_are_those_of_the_list_of_all_values(column, values):
    numbers = numbers_at(
        column, positions_of(column, np.asarray(values, dtype=float))
    ).tolist()
    between = [(low + high) / 2 for low, high in pairwise(numbers)]
    # Of thousands of cents and what lies between them, every fifteenth: numbers and middles in turn.
    numbers_asked = sorted(numbers + between)[:: 1 + len(numbers) // 300]
    for value in [
        -math.inf,
        numbers[0] - 1,
        *numbers_asked,
        numbers[-1],
        numbers[-1] + 1,
        math.inf,
    ]:
        assert next_number(column, value, strict=False) == min(
            (n for n in numbers if n >= value), default=math.inf
        )
        assert next_number(column, value, strict=True) == min(
            (n for n in numbers if n > value), default=math.inf
        )
        assert previous_number(column, value) == max(
            (n for n in numbers if n < value), default=-math.inf
        )
        for other in (value, value + 3):
            first, last = ranks_within(column, (value, other))
            assert numbers[first : last + 1] == [
                n for n in numbers if value <= n <= other
            ]


def test_a_column_that_states_nothing_is_encoded_as_ever():
    whole = Integer(name="x", lower=-3, upper=999_999)
    steps = np.arange(-3, 999_999, 777)
    assert (
        positions_of(whole, steps).tobytes()
        == ((steps + 3) / np.float64(1_000_002)).tobytes()
    )
    real = Continuous(name="x", lower=-0.1, upper=0.7)
    numbers = np.random.default_rng(0).uniform(-0.1, 0.7, 999)
    assert (
        positions_of(real, numbers).tobytes()
        == ((numbers - -0.1) / (0.7 - -0.1)).tobytes()
    )
    positions = np.random.default_rng(1).random(999)
    assert (
        numbers_at(real, positions).tobytes()
        == np.clip(-0.1 + positions * (0.7 - -0.1), -0.1, 0.7).tobytes()
    )


def test_a_schema_says_grids_and_atoms_in_its_file_and_nothing_where_there_are_none():
    columns = [
        CENTS,
        Integer(name="n", lower=0, upper=100, step=5, atoms=[999, -1]),
        Date(
            name="d",
            lower=date(2020, 1, 1),
            upper=date(2021, 1, 1),
            atoms=[date(9999, 12, 31)],
        ),
        Datetime(
            name="t",
            lower=datetime(2020, 1, 1, tzinfo=UTC),
            upper=datetime(2021, 1, 1, tzinfo=UTC),
            step=60,
        ),
        Integer(name="plain", lower=0, upper=9),
    ]
    schema = Schema(columns)
    assert Schema.loads(schema.dumps()) == schema == Schema.from_json(schema.to_json())
    assert schema.to_json()["columns"][2]["atoms"] == ["9999-12-31"]
    assert schema.to_json()["columns"][4] == {
        "name": "plain",
        "kind": "integer",
        "lower": 0,
        "upper": 9,
    }
    shuffled = [
        columns[0],
        Integer(name="n", lower=0, upper=100, step=5, atoms=[-1, 999]),
        *columns[2:],
    ]
    assert Schema(shuffled).digest() == schema.digest()


DECIMAL = {"name": "x", "lower": 0, "upper": 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Decimal(**DECIMAL, step=0),
            "'x': step = 0 must be positive.*such as 0.01.*continuous",
        ),
        (lambda: Decimal(**DECIMAL, step="0.1"), "'x': step must be a number"),
        (
            lambda: Decimal(**DECIMAL, step=0.3),
            "'x': upper = 1.0 is not a whole number of steps of 0.3 above",
        ),
        (
            lambda: Decimal(**DECIMAL, step=1e-30),
            "'x': 1 has too many digits at a step of 1e-30",
        ),
        (
            lambda: Decimal(name="x", lower=0, upper=1e12, step=1e-6),
            "'x': 1e.12 has too many digits",
        ),
        (
            lambda: Decimal(**DECIMAL, step=0.1, atoms=[0.25]),
            "'x': atom 0.25 lies within the bounds.*steps of 0.1",
        ),
        (lambda: Integer(**DECIMAL, step=0), "'x': step = 0 must be 1 or more"),
        (lambda: Integer(**DECIMAL, step=0.5), "'x': step must be a whole number"),
        (
            lambda: Integer(name="x", lower=0, upper=9, step=2),
            "'x': upper = 9 is not a whole number of steps of 2",
        ),
        (lambda: Integer(**DECIMAL, atoms=7), "'x': atoms must be a list"),
        (lambda: Integer(**DECIMAL, atoms="12"), "'x': atoms must be a list"),
        (
            lambda: Integer(**DECIMAL, atoms=[1.5]),
            "'x': an atom must be a whole number",
        ),
        (
            lambda: Integer(**DECIMAL, atoms=[3, 3]),
            "'x': atom 3 is listed more than once",
        ),
        (
            lambda: Integer(**DECIMAL, atoms=range(2, 99)),
            "'x': 97 atoms, and at most 32",
        ),
        (
            lambda: Continuous(**DECIMAL, atoms=[math.nan]),
            "'x': an atom must be a finite number",
        ),
        (
            lambda: Datetime(
                name="x",
                lower=datetime(2020, 1, 1),
                upper=datetime(2021, 1, 1),
                atoms=["2050-01-01T00:00:00Z"],
            ),
            "'x': atom .* time zone",
        ),
        (
            lambda: Schema.loads('[columns.x]\nkind = "decimal"\nlower = 0\nupper = 1'),
            "'x' .decimal.: step missing",
        ),
    ],
)
def test_a_wrong_grid_or_atom_is_refused_with_name_value_and_cure(make, message):
    with pytest.raises(SchemaError, match=message):
        make()


def test_bounds_and_step_are_compared_as_they_are_written_and_not_as_binary_fractions():
    column = Decimal(
        name="x", lower=0.1, upper=0.7, step=0.2
    )  # 0.7 - 0.1 is 0.6 less a rounding error
    assert column.last_rank == 3
    assert Fraction(column.unit_bounds[1] - column.unit_bounds[0], column.spacing) == 3


def test_an_interval_holds_no_atom_outside_the_bounds_and_one_is_named_by_itself():
    schema = Schema([Integer(name="age", lower=0, upper=120, atoms=[-1, 999])])
    records = encode({"age": pa.array([-1, 0, 18, 120, 999])}, schema)
    for value, inside in [
        ((18, None), [0, 0, 1, 1, 0]),
        ((None, 18), [0, 1, 1, 0, 0]),
        ("..", [0, 1, 1, 1, 0]),
        (999, [0, 0, 0, 0, 1]),
        ("-1", [1, 0, 0, 0, 0]),
    ]:
        assert (
            schema.region({"age": value}).contains(records).astype(int).tolist()
            == inside
        )
    with pytest.raises(SchemaError, match="outside the schema's bounds 0 to 120"):
        schema.region({"age": (500, 999)})


def test_a_value_between_two_steps_is_none_of_the_column():
    schema = Schema(
        [
            Integer(name="n", lower=0, upper=100, step=5),
            Decimal(name="x", lower=0, upper=1, step=0.1),
        ]
    )
    for where in ({"n": 7}, {"n": (1, 4)}, {"x": 0.25}, {"x": "0.31..0.39"}):
        with pytest.raises(SchemaError, match="none of its values"):
            schema.region(where)
    records = encode(
        {"n": pa.array([0, 5, 95]), "x": pa.array([0.1, 0.3, 0.4])}, schema
    )
    assert schema.region({"n": (4, 97), "x": "0.3"}).contains(records).tolist() == [
        False,
        True,
        False,
    ]


def test_a_rule_compares_no_atom_outside_the_bounds():
    low = Integer(name="low", lower=0, upper=9, atoms=[99])
    high = Decimal(name="high", lower=0, upper=9, step=0.5)
    schema = Schema(
        [low, high], constraints=(Comparison(left="low", relation="<=", right="high"),)
    )
    records = encode(
        {"low": pa.array([3, 4, 99]), "high": pa.array([3.5, 3.5, 3.5])}, schema
    )
    assert schema.broken(records).tolist() == [False, True, False]
