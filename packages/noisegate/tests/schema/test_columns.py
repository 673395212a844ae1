from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from noisegate.errors import SchemaError
from noisegate.schema import (
    Boolean,
    Categorical,
    Continuous,
    Date,
    Datetime,
    Integer,
    Ordinal,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Continuous(name="x", lower=2, upper=1),
            "'x': lower = 2.0 is above upper = 1.0; swap",
        ),
        (
            lambda: Continuous(name="x", lower=1, upper=1),
            "'x': lower and upper are both 1.0.*widen.*drop",
        ),
        (
            lambda: Continuous(name="x", lower=float("-inf"), upper=1),
            "'x': lower must be a finite number",
        ),
        (
            lambda: Continuous(name="x", lower=0, upper=float("nan")),
            "'x': upper must be a finite number",
        ),
        (
            lambda: Continuous(name="x", lower=0, upper=10**400),
            "'x': upper must be a finite number",
        ),
        (
            lambda: Continuous(name="x", lower=-1e308, upper=1e308),
            "'x': upper - lower must be a finite number",
        ),
        (
            lambda: Continuous(name="x", lower="0", upper=1),
            "'x': lower must be a number",
        ),
        (
            lambda: Continuous(name="x", lower=False, upper=1),
            "'x': lower must be a number",
        ),
        (
            lambda: Continuous(name="x", lower=0, upper=1, missing="no"),
            "'x': missing must be true or false",
        ),
        (
            lambda: Integer(name="n", lower=0.0, upper=1),
            "'n': lower must be a whole number.*decimal point",
        ),
        (
            lambda: Integer(name="n", lower=5, upper=4),
            "'n': lower = 5 is above upper = 4",
        ),
        (
            lambda: Integer(name="n", lower=4, upper=4),
            "'n': lower and upper are both 4",
        ),
        (
            lambda: Integer(name="n", lower=0, upper=2**63),
            "'n': upper = .* does not fit 64 bits",
        ),
        (
            lambda: Integer(name="n", lower=0, upper=2**53 + 1),
            r"'n': the bounds are .* apart, more than the 2\*\*53",
        ),
        (
            lambda: Date(name="d", lower=datetime(2020, 1, 1), upper=date(2021, 1, 1)),
            "'d': lower must be a date",
        ),
        (
            lambda: Date(name="d", lower="2020-02-30", upper=date(2021, 1, 1)),
            "'d': lower must be a date.*2020-02-30",
        ),
        (
            lambda: Date(name="d", lower=date(2020, 1, 1), upper=date(2020, 1, 1)),
            "'d': lower and upper are both",
        ),
        (
            lambda: Datetime(
                name="t", lower=date(2020, 1, 1), upper=datetime(2021, 1, 1)
            ),
            "'t': lower must be a moment",
        ),
        (
            lambda: Datetime(
                name="t",
                lower=datetime(2020, 1, 1, tzinfo=UTC),
                upper=datetime(2021, 1, 1),
            ),
            "time zone",
        ),
        (
            lambda: Datetime(
                name="t", lower=datetime(1700, 1, 1), upper=datetime(2100, 1, 1)
            ),
            "285 years",
        ),
        (lambda: Ordinal(name="o", levels=()), "'o': the list of levels is empty"),
        (lambda: Ordinal(name="o", levels="abc"), "'o': levels must be a list"),
        (
            lambda: Ordinal(name="o", levels=("a", "b", "a")),
            "'o': level 'a' is listed more than once",
        ),
        (lambda: Ordinal(name="o", levels=("a", 1)), "'o': levels mix"),
        (
            lambda: Ordinal(name="o", levels=(True, False)),
            "'o': level True is a truth value",
        ),
        (
            lambda: Ordinal(name="o", levels=("a", " b")),
            "'o', levels: ' b' starts or ends with a blank",
        ),
        (lambda: Ordinal(name="o", levels=("a", "\ud800")), "not valid Unicode"),
        (
            lambda: Categorical(name="c", levels=("a", "b"), other="z"),
            "'c': other = 'z' is not one of the levels",
        ),
        (
            lambda: Categorical(name="c", levels=(0, 1), other=True),
            "'c': other = True is not one of the levels",
        ),
        (
            lambda: Boolean(name="b", true_values=["y"], false_values=["Y"]),
            "each word once in any case",
        ),
        (
            lambda: Integer(name="n", lower=0, upper=1, format="%d"),
            "'n': format = '%d' cannot be read; expected one such",
        ),
        (
            lambda: Date(
                name="d", lower="2020-01-01", upper="2021-01-01", format="%d %d"
            ),
            "'d': format = .*each field once",
        ),
        (lambda: Boolean(name=""), "empty name"),
        (lambda: Boolean(name=3), "name of a column: expected text, found 3"),
    ],
)
def test_a_wrong_column_is_refused_with_name_value_and_cure(make, message):
    with pytest.raises(SchemaError, match=message):
        make()


def test_aware_moments_are_kept_in_utc():
    zone = timezone(timedelta(hours=2))
    column = Datetime(
        name="t",
        lower=datetime(2020, 1, 1, 2, tzinfo=zone),
        upper=datetime(2021, 1, 1, tzinfo=zone),
    )
    assert column.aware
    assert column.lower.isoformat() == "2020-01-01T00:00:00+00:00"
