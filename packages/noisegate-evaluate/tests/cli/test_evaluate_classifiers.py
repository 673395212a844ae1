import random

import pytest

from noisegate.schema import pixel_schema
from noisegate_evaluate import CAVEAT


@pytest.fixture
def images(tmp_path, cli):
    """Images of 2 x 2 pixels, of which the first is bright for a 1."""
    draw = random.Random(0)
    for name in ("synthetic", "test"):
        rows = [
            (
                f"{100 + 100 * label + draw.randint(-50, 50)},{draw.randint(0, 255)},{draw.randint(0, 255)},9",
                label,
            )
            for label in [0, 1] * 8
        ]
        text = "".join(f"{pixels},{label}\n" for pixels, label in rows)
        (tmp_path / f"{name}.csv").write_text(
            f"pixel_0_0,pixel_0_1,pixel_1_0,pixel_1_1,label\n{text}"
        )
    pixel_schema(2, 2, labels=(0, 1)).to_toml(tmp_path / "schema.toml")

    def run(*more):
        where = [
            "--synthetic",
            tmp_path / "synthetic.csv",
            "--test",
            tmp_path / "test.csv",
        ]
        return cli("evaluate", *where, "--schema", tmp_path / "schema.toml", *more)

    return run


BRIEF = ("--epochs", 60, "--device", "cpu", "--jobs", 1)


def test_networks_on_images(images):
    ended = images("--classifiers", "mlp", "--repeats", 2, *BRIEF, "--json")
    assert (ended.code, ended.err) == (0, "")
    scored = ended.json["downstream"]
    assert ended.json["caveat"] == CAVEAT
    assert scored["classifiers"]["networks"] == ["MLP"]
    assert (scored["classifiers"]["image"], scored["classifiers"]["seeds"]) == (
        [2, 2, 1],
        [0, 1],
    )
    assert scored["models"]["MLP"]["roc_auc"] > 0.9


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ("--classifiers", "mlp,bert"),
            "network 'bert' is not known; expected some of convnet, lenet",
        ),
        (
            ("--classifiers", "mlp", "--image", "2x2"),
            "image is '2x2'; expected HEIGHT,WIDTH,CHANNELS",
        ),
        (("--epochs", 3), "--epochs is for networks"),
    ],
)
def test_wrong_words_about_networks_are_refused_before_anything_is_read(
    images, tmp_path, more, message
):
    (tmp_path / "test.csv").unlink()
    ended = images(*more)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
