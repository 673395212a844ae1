import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import continuous

from noisegate.app.drafts.draft import draft
from noisegate.schema import EncodedTable, Schema, decode
from noisegate.sources import TableSource

RECORD_COUNT = 600
RANDOM = np.random.default_rng(0)
REALS = RANDOM.uniform(-9, 9, RECORD_COUNT).round(3)
WEIGHTS = RANDOM.integers(40, 120, RECORD_COUNT)


def with_comma(texts):
    return [text.replace(".", ",") for text in texts]


def with_minus_sign(texts):
    return [text.replace("-", "\u2212") for text in texts]


FIXED = [f"{real:.3f}" for real in REALS]
# Texts, the numbers that they are, the format.
NUMBERS = {
    "comma and exponent": (
        with_comma([f"{real:.3e}" for real in REALS]),
        REALS,
        "0,000000",
    ),
    "some with exponent": (
        ["1,5e-3", *with_comma(FIXED[1:])],
        [0.0015, *REALS[1:]],
        "0,0000",
    ),
    "exponents": ([f"{real:.3E}" for real in REALS], REALS, None),
    "a minus sign": (with_minus_sign(FIXED), REALS, None),
    "a minus sign and a comma": (with_minus_sign(with_comma(FIXED)), REALS, "0,000"),
    "whole, a minus sign": (
        with_minus_sign([str(80 - weight) for weight in WEIGHTS]),
        80 - WEIGHTS,
        None,
    ),
    "negative zero": (["-0,0", *with_comma(FIXED[1:])], [0, *REALS[1:]], "0,000"),
    "a unit": ([f"{weight} kg" for weight in WEIGHTS], WEIGHTS, "0 kg"),
    "a unit without a blank": ([f"{weight}kg" for weight in WEIGHTS], WEIGHTS, "0kg"),
    "degrees": ([f"{real} °C" for real in REALS], REALS, "0.000 °C"),
}


def drafted(path, texts):
    path.write_text("value,x\n" + "".join(f'"{text}",1\n' for text in texts))
    return draft(path)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_read_however_they_are_written(name, tmp_path):
    texts, numbers, text_format = NUMBERS[name]
    path = tmp_path / "public.csv"
    schema = Schema.loads(drafted(path, texts).toml())
    column = schema.column("value")
    assert column.numeric is True
    assert column.format == text_format
    encoded = EncodedTable.concatenate(list(TableSource(path, schema).batches()))
    written = decode(encoded, schema)["value"].combine_chunks()
    values = column.parse_cells(written).numbers  # they are written in the format
    assert values == pytest.approx(np.asarray(numbers), abs=1e-6)


NO_NUMBERS = {
    "codes": [f"{number % 30}m" for number in WEIGHTS],
    "few doses": [f"{10 * (number % 4 + 1)} mg" for number in WEIGHTS],
    "other words": [f"{number} items" for number in WEIGHTS],
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_codes_and_doses_stay_levels(name, tmp_path):
    schema = drafted(tmp_path / "public.csv", NO_NUMBERS[name]).schema
    assert schema.column("value").kind == "categorical"


@pytest.mark.parametrize(
    ("text_format", "text", "number"),
    [
        ("0,00", "1,5e-3", 0.0015),
        ("0,00", "\u22121,5", -1.5),
        ("#.##0,00 €", "\u22121.234,5 €", -1234.5),
        ("0 each", "5 each", 5.0),
        ("0,00", "1,5e", None),
        ("0,00", "1,5e99999", None),
    ],
)
def test_a_format_reads_exponents_and_minus_signs(text_format, text, number):
    column = continuous("x", -9, 9, format=text_format)
    parsed = column.parse_cells(pa.array([text]))
    assert parsed.is_bad[0] == (number is None)
    assert number is None or parsed.numbers[0] == number
