from noisegate_evaluate.reporting.page import coded
from noisegate_evaluate.reporting.pictures import legible


def test_long_and_broken_and_undrawable_text_becomes_one_short_line():
    assert legible("short", 8) == "short"
    assert legible("much too long", 8) == "much to…"
    assert legible("two\n lines", 20) == "two lines"
    assert legible("収入 in yen", 20) == "·· in yen"
    assert legible("größe", 20) == "größe"


def test_what_stands_between_backticks_is_code_and_nothing_else_is_markup():
    assert coded("`noisegate plan` says <b>, `") == "<code>noisegate plan</code> says &lt;b&gt;, `"
