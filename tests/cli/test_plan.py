"""What a plan forecasts of questions that no method of the command line asks alone: tables, and adaptive ones."""

import pytest

from noisegate.cli.plan import describe, show
from noisegate.privacy.plan import Budget, Plan, Question


def planned(**options):
    question = Question(name="pairs", dim=57_600, columns=1, norm=1.0, share=1.0, nonnegative=True, **options)
    return Plan(questions=(question,)).calibrate(Budget(epsilon=1.0))


def test_tables_take_time_by_their_number_and_not_by_their_cells():
    features, tables = (describe(planned(tables=tables), 10_000_000)["seconds_at_the_gate"] for tables in (None, 100))
    # 10⁷ records x 100 tables x 5 ns, and noise; not 10⁷ x 57,600 features at 4·10⁸ a second.
    assert tables == pytest.approx(5 + 0.576, rel=1e-9)
    assert features == pytest.approx(1440 + 0.576, rel=1e-9)


def test_an_adaptive_question_is_shown_with_its_largest_size(capsys):
    show(planned(adaptive=True), None)
    assert "≤ 57600 x 1" in capsys.readouterr().out
    show(planned(), None)
    assert "≤ 57600" not in capsys.readouterr().out
    assert [describe(planned(adaptive=later), None)["releases"][0]["adaptive"] for later in (True, False)] == [
        True,
        False,
    ]
