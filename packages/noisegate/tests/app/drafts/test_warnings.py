import warnings

import pandas as pd
import pytest
from tests.shared.columns import integer

from noisegate import Schema, draft_schema, fit, synthesize
from noisegate.app.drafts.draft import draft

ROWS = 300
TABLE = pd.DataFrame(
    {
        "weight": [row % 9 for row in range(ROWS)],
        "note": [f"text number {row} here" for row in range(ROWS)],
        "months": pd.period_range("2000-01", periods=ROWS, freq="M"),
    }
)
REASONS = (
    r"note: ignored: each of the 300 values occurs once.*; "
    r"months: ignored: values of type period\[M\] have no kind in a schema"
)


def test_a_draft_warns_of_what_it_leaves_out_and_so_does_what_uses_it():
    with pytest.warns(UserWarning, match=REASONS):
        schema = draft_schema(TABLE)
    for function in (synthesize, fit):
        with pytest.warns(UserWarning, match=REASONS):
            model = function(TABLE[["weight", "note"]], schema=schema, epsilon=1.0)
        assert model.schema.names == ("weight",)


def test_nothing_is_said_where_nothing_is_left_out_or_somebody_said_so():
    by_hand = Schema([integer("weight", 0, 9)], ignore=("note",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draft_schema(TABLE[["weight"]]).omissions is None
        synthesize(TABLE[["weight", "note"]], schema=by_hand, epsilon=1.0)
    # A file that was read through states no reasons.
    with pytest.warns(UserWarning, match="note"):
        drafted = draft_schema(TABLE[["weight", "note"]])
    assert Schema.loads(drafted.dumps()).omissions is None


def test_lengths_of_time_are_left_out_with_what_they_might_become():
    waits = pd.to_timedelta([row % 90 for row in range(ROWS)], unit="s")
    drafted = draft(TABLE[["weight"]].assign(wait=waits))
    assert drafted.ignored["wait"].startswith("wait: ignored: lengths of time; state")
    text = drafted.toml()
    text = text.replace('ignore = ["wait"]', "").replace(
        "# [columns.wait]\n# ", "[columns.wait]\n"
    )
    text = text.replace("# # lower = ", 'lower = "0s"').replace(
        "# # upper = ", 'upper = "90s"'
    )
    assert Schema.loads(text).column("wait").kind == "duration"
