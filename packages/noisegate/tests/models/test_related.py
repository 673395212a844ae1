"""A model of a table with relations: from a file to a copy, answers, pages and an evaluation."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import categorical, integer

from noisegate import Schema, load, plan, synthesize
from noisegate.errors import OptionError
from noisegate.schema import Date, Decimal
from noisegate.schema.relations.forms import parse_rule

RECORDS = 9_000
FIRST_DAY = dt.date(2021, 1, 1)
YEARS = {"lower": "2021-01-01", "upper": "2023-12-31"}


def register(records=RECORDS, seed=0):
    """Stays of some days within three years, longer on one ward."""
    random = np.random.default_rng(seed)
    ward = random.choice(["A", "B", "C"], records)
    stay = random.geometric(1 / 8, records) - 1
    stay = np.where(ward == "C", 2 * stay, stay)
    admission = random.integers(0, 900, records)
    weight = np.round(random.normal(75, 12, records).clip(40, 130), 1)
    height = random.normal(172, 9, records).round().clip(140, 210).astype(int)

    def days(offsets):
        return [FIRST_DAY + dt.timedelta(days=int(offset)) for offset in offsets]

    table = pa.table(
        {
            "admission": days(admission),
            "discharge": days(admission + stay),
            "ward": ward,
            "weight": weight,
            "height": height,
            "bmi": np.round(weight / (height / 100) ** 2, 1),
        }
    )
    return table, stay


def related_schema():
    columns = [
        Date(name="admission", **YEARS),
        Date(name="discharge", **YEARS),
        categorical("ward", "ABC"),
        Decimal(name="weight", lower=30, upper=150, step=0.1),
        integer("height", 100, 220),
        Decimal(name="bmi", lower=5, upper=80, step=0.1),
    ]
    by_name = {column.name: column for column in columns}
    rules = ("discharge >= admission", "bmi = weight / (height / 100) ** 2")
    return Schema(columns, relations=tuple(parse_rule(rule, by_name) for rule in rules))


@pytest.fixture(scope="module")
def fitted():
    table, _ = register()
    return synthesize(table, schema=related_schema(), epsilon=1.0)


def stays(table):
    """Days between the two dates of each record."""
    frame = table.to_pandas()
    return np.array(
        [
            (discharge - admission).days
            for admission, discharge in zip(
                frame.admission, frame.discharge, strict=True
            )
        ]
    )


def test_a_stay_of_days_keeps_its_distribution_within_years(fitted):
    """Stays have a median of 40 days where the second date is measured by itself."""
    _, real = register()
    synthetic = stays(fitted.sample(RECORDS, seed=1))
    assert synthetic.min() >= 0
    assert abs(np.median(synthetic) - np.median(real)) <= 1
    assert abs(np.quantile(synthetic, 0.9) - np.quantile(real, 0.9)) <= 2


def test_a_formula_holds_to_the_last_digit(fitted):
    frame = fitted.sample(RECORDS, seed=1).to_pandas()
    exact = frame.weight / (frame.height / 100) ** 2
    assert (abs(frame.bmi - exact) <= 0.05 + 1e-9).all()


def test_a_saved_model_samples_the_same_records(fitted, tmp_path):
    read = load(fitted.save(tmp_path / "model"))
    assert read.sample(100, seed=3) == fitted.sample(100, seed=3)


def test_conditions_on_computed_columns_are_met(fitted):
    first = dt.date(2022, 3, 1)
    last = dt.date(2022, 3, 31)
    march = fitted.sample(200, seed=1, where={"discharge": (first, last)})
    assert all(first <= day <= last for day in march["discharge"].to_pylist())


def test_the_difference_is_answered_and_the_computed_column_refused(fitted):
    (estimate,) = fitted.infer("quantile(discharge - admission, 0.5)")
    _, real = register()
    assert estimate.low <= np.median(real) <= estimate.high
    with pytest.raises(OptionError, match="computed by the relation bmi ="):
        fitted.infer("mean(bmi)")


def test_a_plan_names_what_is_measured():
    planned = plan(related_schema(), epsilon=1.0, records=RECORDS)
    layout = planned.plan.design.layout
    names = [column.name for column in (*layout.numeric, *layout.coded)]
    assert names == ["admission", "discharge - admission", "weight", "height", "ward"]
