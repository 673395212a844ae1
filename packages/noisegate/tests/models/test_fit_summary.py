"""What the share of images that fit their own class best comes to, in words."""

import pytest

from noisegate.models.checkpoint import FitSummary
from noisegate.verdict import Verdict

SUMMARY = FitSummary(
    step=9, steps=9, discrepancy=1.0, verdict=Verdict(word="usable", source="fit", reasons=("little noise",))
)


@pytest.mark.parametrize(
    ("agreement", "classes", "kept", "word"),
    [
        (0.94, 10, True, "usable"),  # digits
        (0.70, 10, True, "usable"),  # six signs a class, 6,000 steps
        (0.53, 10, True, "rough"),  # the same, 2,000 steps
        (0.33, 10, True, "rough"),  # photographs without noise
        (0.30, 10, False, "rough"),  # photographs at epsilon 10
        (0.24, 10, False, "noise"),  # stripes
        (0.60, 2, True, "rough"),  # by chance it is .5
        (0.80, 2, True, "usable"),
        (0.28, 100, False, "rough"),
    ],
)
def test_little_noise_is_no_good_where_classes_cannot_be_told_apart(agreement, classes, kept, word):
    found = SUMMARY.with_agreement(agreement, classes, kept=kept)
    assert found.verdict.word == word and ("hardly be told apart" in str(found.verdict)) == (word != "usable")
    assert f"{100 * agreement:.0f} fit the released means of their class best" in str(found.verdict)
    assert found.notes == {"agreement": agreement}
