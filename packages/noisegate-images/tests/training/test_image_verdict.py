"""What released means of images are expected to tell apart."""

import pytest

from noisegate import Budget, JointEmbedding
from noisegate.answers.verdict import WORDS
from noisegate.schema import pixel_schema
from noisegate_images.training.fit import image_verdict

SCHEMA = pixel_schema(28, 28, labels=range(10))


def word(noise, records):
    return image_verdict(noise, 10, records, "plan").word


@pytest.mark.parametrize(
    ("records", "expected"),
    [(60_000, "usable"), (8_000, "usable"), (1_000, "rough"), (100, "noise")],
)
def test_a_plan_says_what_to_expect_of_so_many_images(records, expected):
    found = JointEmbedding(image=(28, 28, 1)).verdict(
        SCHEMA, Budget(epsilon=1.0), records
    )
    assert (found.word, found.source) == (expected, "plan")
    assert f"with about {records // 10:,} images a class" in str(found)
    assert bool(found.cures) == (expected != "usable")


def test_more_images_and_less_noise_are_never_worse():
    words = [
        WORDS.index(word(5.0, records)) for records in (1, 100, 400, 1500, 6000, 10**6)
    ]
    assert words == sorted(words)
    assert [word(5.0, 1), word(5.0, 10**6)] == ["noise", "usable"]
    assert word(5.0, 2000) == word(50.0, 20_000)


def test_what_a_word_takes_is_enough_for_it_and_hardly_less_is():
    unknown = image_verdict(5.3, 10, None, "plan")
    assert unknown.word is None
    for name, least in unknown.figures["records_for"].items():
        assert f"{name} from {least:,}" in unknown.reasons[0]
        assert word(5.3, least) == name
        assert word(5.3, 0.9 * least) != name


def test_images_without_labels_have_no_classes_to_tell_apart():
    assert (
        JointEmbedding(image=(28, 28, 1)).verdict(
            pixel_schema(28, 28, labels=None), Budget(epsilon=1.0), 9
        )
        is None
    )
