"""What changed in a stream: its errors are those of noise and chance, and a page shows what moved."""

import numpy as np
import pyarrow as pa

from noisegate import fit_period, plan_stream
from noisegate.privacy.accounting import noise_coefficients
from noisegate.privacy.continual_plan import Horizon
from noisegate.schema import Boolean, Schema
from noisegate_evaluate.reporting.public_figures.changes import _score_changes


def test_where_nothing_changes_differences_are_as_large_as_their_errors():
    random = np.random.default_rng(0)
    periods = 6
    shares = np.array([0.5, 0.2, 0.2, 0.07, 0.03])
    taken = np.array(noise_coefficients(Horizon(periods=periods).weights, periods))
    late = np.subtract.outer(range(periods), range(periods))
    rows = np.where(late >= 0, taken[late.clip(0)], 0.0)
    scores = []
    inside = []
    for _ in range(400):
        noise = rows @ random.normal(scale=25.0, size=(periods, len(shares)))
        found = _score_changes(
            "x",
            list("abcde"),
            random.multinomial(2000, shares, periods) + noise,
            25.0,
            rows,
        )
        scores += [score for score, _ in found]
        inside += [abs(one.now - one.before) < one.half_width for _, one in found]
    # Of 2,000 differences; noise that takes nothing back would be told as a third too small.
    assert abs(np.sqrt(np.mean(np.square(scores))) - 1) < 0.06
    assert abs(np.mean(inside) - 0.95) < 0.025


def test_the_page_of_a_stream_shows_what_moved(tmp_path):
    plan_stream(
        tmp_path / "s.json",
        schema=Schema([Boolean(name="ill"), Boolean(name="old")]),
        epsilon=2.0,
        periods=3,
    )
    after = None
    for period, many in enumerate((300, 305, 700)):
        table = pa.table(
            {"ill": [True] * many + [False] * (1000 - many), "old": [True, False] * 500}
        )
        fit_period(
            table,
            stream=tmp_path / "s.json",
            after=after,
            out=(after := tmp_path / f"m{period}"),
        )
        page = " ".join((after / "public.html").read_text("utf-8").split())
        assert ("are not known yet" in page) is (period == 0)
        assert ("by more than noise and chance" in page) is (period > 0)
        assert ("the following shares differ" in page) is (period == 2)
        assert "Period" in page
    assert '<th scope="row">ill</th>' in page
    assert (
        '<th scope="row">old</th>'
        not in page.split("What changed")[1].split("</section>")[0]
    )
