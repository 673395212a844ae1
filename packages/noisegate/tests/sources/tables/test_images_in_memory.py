"""Images in memory are the records that the same images are in files, bit for bit."""

import datasets
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.shared.image_files import encoded, parquet, picture, pixels

from noisegate.errors import DataError, installed
from noisegate.schema import EncodedTable, pixel_schema
from noisegate.sources import open_source
from noisegate.sources.units import UnitLimit

LABELS = [0, 1, 1, 0, 2, 2]
GREY = pixels()
COLOUR = pixels(channels=3)
NAMES = ("ant", "bee", "cow")


def memory_images_encode(data, images, labels=(0, 1, 2), **options):
    schema = pixel_schema(*images.shape[1:], labels=labels)
    encoded_records = EncodedTable.concatenate(
        list(open_source(data, schema, **options).batches())
    )
    return encoded_records.numeric.tobytes(), encoded_records.codes.tobytes()


def in_file(folder, images):
    return parquet(
        folder / "images.parquet", [encoded(picture(image)) for image in images], LABELS
    )


def of_torch(images, labels, form):
    torch = pytest.importorskip("torch")
    make = {
        "pillow": picture,
        "bytes": lambda image: image,
        "tensor": lambda image: torch.from_numpy(np.moveaxis(image, -1, 0).copy()),
        "floats": lambda image: torch.from_numpy(np.moveaxis(image, -1, 0) / 255),
    }[form]

    class Pairs(torch.utils.data.Dataset):
        def __len__(self):
            return len(images)

        def __getitem__(self, place):
            return make(images[place]), labels[place]

    return Pairs()


def hugging_face(images, folder):
    return datasets.Dataset.from_dict(
        {"image": [picture(image) for image in images], "label": LABELS}
    ).cast_column("image", datasets.Image())


@pytest.mark.parametrize("images", [GREY, COLOUR])
@pytest.mark.parametrize("kind", ["pair", "dict", "hugging face", "polars", "arrow"])
def test_images_in_memory_are_those_in_files(kind, images, tmp_path):
    path = in_file(tmp_path, images)
    data = {
        "pair": lambda: (images, LABELS),
        "dict": lambda: {"images": images, "labels": np.array(LABELS)},
        "hugging face": lambda: hugging_face(images, tmp_path),
        "polars": lambda: pl.read_parquet(path),
        "arrow": lambda: pq.read_table(path),
    }[kind]()
    assert memory_images_encode(data, images) == memory_images_encode(path, images)


@pytest.mark.parametrize("images", [GREY, COLOUR])
@pytest.mark.parametrize("form", ["pillow", "bytes", "tensor"])
def test_a_data_set_of_torch_is_read_item_by_item(form, images, tmp_path):
    expected = memory_images_encode(in_file(tmp_path, images), images)
    assert memory_images_encode(of_torch(images, LABELS, form), images) == expected
    assert (
        memory_images_encode(
            of_torch(images, [np.int64(label) for label in LABELS], form), images
        )
        == expected
    )


def test_arrays_without_labels_without_channels_and_with_the_channels_first():
    torch = pytest.importorskip("torch")
    unlabelled = memory_images_encode(GREY, GREY, labels=None)
    assert memory_images_encode(GREY[..., 0], GREY, labels=None) == unlabelled
    assert (
        memory_images_encode(
            torch.from_numpy(np.moveaxis(GREY, -1, 1).copy()), GREY, labels=None
        )
        == unlabelled
    )
    assert memory_images_encode((GREY, None), GREY, labels=None) == unlabelled


def test_labels_are_text_or_positions_among_the_names_of_the_data(tmp_path):
    texts = [NAMES[label] for label in LABELS]
    expected = memory_images_encode((GREY, texts), GREY, labels=NAMES)
    assert memory_images_encode((GREY, np.array(texts)), GREY, labels=NAMES) == expected
    classes = datasets.ClassLabel(names=list(NAMES))
    assert (
        memory_images_encode(
            hugging_face(GREY, tmp_path).cast_column("label", classes),
            GREY,
            labels=NAMES,
        )
        == expected
    )
    if installed("torch"):
        named = of_torch(GREY, LABELS, "pillow")
        named.classes = list(NAMES)
        assert memory_images_encode(named, GREY, labels=NAMES) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((GREY / 255, LABELS), r"of float64 .* numpy.rint\(255"),
        ((GREY, LABELS[:3]), "3 labels for 6 images"),
        (GREY, "no labels for 6 images"),
        ((GREY, [0.5] * 6), "expected whole numbers or text"),
        ((GREY, [0, "a", 1, 1, 1, 1]), "'labels': is a list of mixed"),
        ((GREY, [0, 9, 1, 1, 1, 1]), "images, image 2, label 'label'"),
        ((COLOUR, LABELS), "is of colours, expected grey"),
    ],
)
def test_images_that_do_not_fit_are_refused(data, message):
    with pytest.raises(DataError, match=message):
        memory_images_encode(data, GREY)


def test_whose_image_each_one_is_needs_a_column():
    units = UnitLimit(column="who", contributions=1)
    with pytest.raises(DataError, match="do not say whose image"):
        memory_images_encode((GREY, LABELS), GREY, units=units)
    table = pa.table(
        {
            "image": [encoded(picture(image)) for image in GREY],
            "label": LABELS,
            "who": list("aabbcc"),
        }
    )
    assert len(memory_images_encode(table, GREY, units=units)[1]) == 3 * 4
