"""One picture to pixels: which are taken as they are, which by a public rule, and which are refused."""

import re

import numpy as np
import pytest
from PIL import Image
from tests.shared.image_files import animated, bomb, encoded, picture, pixels

from noisegate.schema import ImageForm, ImageShape
from noisegate_images.sources.decode import PictureFile, PictureProblem, decode_picture

GREY, COLOUR = pixels(1)[0], pixels(1, channels=3)[0]


def decode(content, height=5, width=4, channels=1, **rules):
    shape = ImageShape(height=height, width=width, channels=channels)
    return decode_picture(content, ImageForm(shape=shape, **rules))


def refusal(content, *args, **rules):
    with pytest.raises(PictureProblem) as caught:
        decode(content, *args, **rules)
    assert caught.value.__context__ is None
    return str(caught.value)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP"])
def test_every_format_is_read_without_loss(kind):
    options = {"lossless": True} if kind == "WEBP" else {}
    assert (
        decode(encoded(picture(COLOUR), kind, **options), channels=3).tolist()
        == COLOUR.tolist()
    )
    if kind != "WEBP":  # which has no grey
        assert decode(encoded(picture(GREY), kind)).tolist() == GREY.tolist()


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_read_to_within_what_it_loses(channels):
    smooth = np.repeat(
        np.linspace(0, 255, 16 * 16).reshape(16, 16, 1), channels, axis=2
    ).astype(np.uint8)
    found = decode(encoded(picture(smooth), "JPEG", quality=95), 16, 16, channels)
    assert np.abs(found.astype(int) - smooth).max() < 12


def test_black_and_white_becomes_0_and_255():
    bits = Image.fromarray(GREY[:, :, 0] > 127)
    assert bits.mode == "1"
    assert decode(encoded(bits)).tolist() == np.where(GREY > 127, 255, 0).tolist()


def test_a_rotation_beside_the_pixels_is_not_applied():
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decode(encoded(picture(GREY), exif=exif)).tolist() == GREY.tolist()


MODES = {
    "LA": (
        "grey with transparency",
        Image.merge("LA", [picture(GREY), picture(255 - GREY)]),
    ),
    "RGBA": ("colours with transparency", picture(COLOUR).convert("RGBA")),
    "P": ("a palette of colours", picture(COLOUR).quantize(16)),
    "CMYK": ("printing colours", picture(COLOUR).convert("CMYK")),
    "I;16": (
        "grey of 16 bits",
        Image.fromarray(GREY[:, :, 0].astype(np.uint16) * 256 + 77),
    ),
    "F": ("of mode F", Image.fromarray(GREY[:, :, 0].astype(np.float32))),
}
KINDS = {"CMYK": "TIFF", "F": "TIFF"}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_other_modes_are_refused_and_named(mode, channels):
    words, image = MODES[mode]
    assert image.mode == mode
    said = refusal(encoded(image, KINDS.get(mode, "PNG")), channels=channels)
    assert words in said and "convert = true" in said


def test_colour_for_grey_and_grey_for_colour_are_refused():
    assert "is of colours, expected grey" in refusal(encoded(picture(COLOUR)))
    assert "is grey, expected of three colours" in refusal(
        encoded(picture(GREY)), channels=3
    )


def test_conversions_follow_the_public_rules():
    wide = {"convert": True}
    repeated = np.repeat(GREY, 3, axis=2).tolist()
    assert decode(encoded(picture(GREY)), channels=3, **wide).tolist() == repeated
    luma = COLOUR @ np.array([0.299, 0.587, 0.114])
    assert np.abs(decode(encoded(picture(COLOUR)), **wide)[:, :, 0] - luma).max() <= 1
    assert decode(encoded(picture(GREY), "GIF"), **wide).tolist() == GREY.tolist()
    assert decode(encoded(MODES["LA"][1]), **wide).tolist() == GREY.tolist()
    assert decode(encoded(MODES["LA"][1]), channels=3, **wide).tolist() == repeated
    assert decode(encoded(MODES["I;16"][1]), **wide).tolist() == GREY.tolist()
    assert decode(encoded(MODES["I;16"][1]), channels=3, **wide).tolist() == repeated
    assert (
        decode(encoded(MODES["RGBA"][1]), channels=3, **wide).tolist()
        == COLOUR.tolist()
    )
    assert (
        decode(encoded(MODES["CMYK"][1], "TIFF"), channels=3, **wide).tolist()
        == COLOUR.tolist()
    )
    palette = MODES["P"][1]
    assert (
        decode(encoded(palette), channels=3, **wide).tolist()
        == np.asarray(palette.convert("RGB")).tolist()
    )
    clear = encoded(
        palette, transparency=bytes([0, 128, 255])
    )  # a palette that Pillow warns of
    assert (
        decode(clear, channels=3, **wide).tolist()
        == np.asarray(palette.convert("RGB")).tolist()
    )
    assert "cut off or damaged" in refusal(encoded(MODES["F"][1], "TIFF"), **wide)


def test_another_size_is_refused_and_named():
    said = refusal(encoded(picture(pixels(1, 7, 3)[0])))
    assert "is 7 x 3 pixels, expected 5 x 4" in said and 'resize = "stretch"' in said


BARS = np.repeat(np.array([0, 100, 200, 250], np.uint8), 2)[None, :, None].repeat(
    4, axis=0
)  # 4 x 8, four bars


@pytest.mark.parametrize("channels", [1, 3])
def test_sizes_follow_the_declared_rule(channels):
    bars = encoded(picture(BARS.repeat(channels, axis=2)))
    cropped = decode(bars, 4, 4, channels, resize="crop")
    assert cropped[:, :, 0].tolist() == [[100, 100, 200, 200]] * 4
    stretched = decode(bars, 4, 4, channels, resize="stretch")[:, :, 0]
    assert (np.diff(stretched.astype(int), axis=1) > 0).all() and np.abs(
        stretched[:, 0].astype(int)
    ).max() < 30
    padded = decode(bars, 8, 8, channels, resize="pad")[:, :, 0]
    assert padded[2:6].tolist() == BARS[:, :, 0].tolist()
    assert not padded[:2].any() and not padded[6:].any()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (None, "holds no bytes"),
        (b"SECRET", "is not an image in a known format; expected PNG, JPEG"),
        (
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 5\n",
            "is not an image in a known format",
        ),
        (bomb(), "more than 89,478,485 pixels"),
        (animated(), "is animated"),
        (encoded(picture(GREY))[:-30], "is cut off or damaged"),
        (encoded(picture(GREY))[:20], "is cut off or damaged"),
        (encoded(picture(GREY)).replace(b"IDAT", b"IDAX"), "is cut off or damaged"),
        (
            encoded(picture(COLOUR), "JPEG")[:-200],
            "is cut off or damaged|is of colours",
        ),
    ],
)
def test_broken_pictures_are_refused(content, says):
    said = refusal(content)
    assert re.search(says, said) and "SECRET" not in said


def test_several_pages_are_refused():
    pages = encoded(picture(GREY), "TIFF", save_all=True, append_images=[picture(GREY)])
    assert "several pages" in refusal(pages)


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1)])
def test_arrays_are_taken_as_they_are_or_by_the_same_rules(shape):
    assert decode(GREY.reshape(shape)).tolist() == GREY.tolist()
    assert "is 5 x 4 pixels" in refusal(GREY.reshape(shape), 4, 5)
    file = encoded(picture(GREY))
    assert (
        decode(GREY.reshape(shape), 7, 7, resize="pad").tolist()
        == decode(file, 7, 7, resize="pad").tolist()
    )
    assert (
        decode(COLOUR, convert=True).tolist()
        == decode(encoded(picture(COLOUR)), convert=True).tolist()
    )
    assert "is of colours" in refusal(COLOUR)
    assert "no shape of an image" in refusal(np.zeros((5, 4, 7), np.uint8))


def test_files_are_read_inside_their_folder_only(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out.png").write_bytes(encoded(picture(GREY)))
    (tmp_path / "in" / "real.png").write_bytes(encoded(picture(GREY)))
    (tmp_path / "in" / "away.png").symlink_to(tmp_path / "out.png")
    (tmp_path / "in" / "near.png").symlink_to("real.png")
    root = str((tmp_path / "in").resolve())
    assert (
        decode(PictureFile(tmp_path / "in" / "near.png", root)).tolist()
        == GREY.tolist()
    )
    assert "is a link to a file outside" in refusal(
        PictureFile(tmp_path / "in" / "away.png", root)
    )
    assert "is not a regular file" in refusal(PictureFile(tmp_path / "in", root))
