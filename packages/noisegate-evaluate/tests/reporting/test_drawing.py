from datetime import date

import pytest

from noisegate.schema import Date, Integer
from noisegate_evaluate.reporting.page import coded
from noisegate_evaluate.reporting.pictures import legible
from noisegate_evaluate.reporting.released import at


def test_long_and_broken_and_undrawable_text_becomes_one_short_line():
    assert legible("short", 8) == "short"
    assert legible("much too long", 8) == "much to…"
    assert legible("two\n lines", 20) == "two lines"
    assert legible("収入 in yen", 20) == "·· in yen"
    assert legible("größe", 20) == "größe"


@pytest.mark.parametrize(
    ("lower", "upper", "texts"),
    [
        (17, 90, ["17", "53.5", "90"]),
        (0, 99_999, ["0", "50,000", "99,999"]),
        (-2_000_000, 2_000_000, ["-2M", "0", "2M"]),
        (0, 4_000_000_000, ["0", "2G", "4G"]),
        (date(1899, 12, 31), date(1900, 1, 10), ["1899-12-31", "1900-01-05", "1900-01-10"]),
    ],
)
def test_numbers_are_short_and_dates_are_days(lower, upper, texts):
    kind = Date if isinstance(lower, date) else Integer
    assert [at(kind(name="n", lower=lower, upper=upper), unit) for unit in (0, 0.5, 1)] == texts


def test_what_stands_between_backticks_is_code_and_nothing_else_is_markup():
    assert coded("`noisegate plan` says <b>, `") == "<code>noisegate plan</code> says &lt;b&gt;, `"
