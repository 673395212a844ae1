"""Pictures as files, for the tests of the readers of images."""

import io
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def pixels(count=6, height=5, width=4, channels=1):
    """Random pictures, (count, height, width, channels), the same ones at every call."""
    return np.random.default_rng(7).integers(
        0, 256, (count, height, width, channels), dtype=np.uint8
    )


def picture(array):
    """One picture of Pillow, grey or colour."""
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def encoded(image, kind="PNG", **options):
    """The bytes of a file of one picture."""
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def class_folders(root, images, labels):
    """A folder of PNG files for each label."""
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        (root / str(label)).mkdir(parents=True, exist_ok=True)
        (root / str(label) / f"SECRET-{index:03}.png").write_bytes(
            encoded(picture(image))
        )
    return root


def parquet(path, contents, labels, *, metadata=None, rows=None, **more):
    """A Parquet file with Hugging Face's image column; ``contents`` are the bytes of files."""
    struct = pa.array(
        [{"bytes": content, "path": "SECRET.png"} for content in contents],
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    )
    columns = {"image": struct} | ({} if labels is None else {"label": labels}) | more
    table = pa.table(columns)
    pq.write_table(
        table if metadata is None else table.replace_schema_metadata(metadata),
        path,
        row_group_size=rows,
    )
    return path


def bomb(side=20_000):
    """A PNG of ``side`` x ``side`` pixels in some hundred bytes, of which only the header is whole."""
    content = bytearray(encoded(Image.new("L", (1, 1))))
    content[16:24] = side.to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(bytes(content[12:29])).to_bytes(4, "big")
    return bytes(content)


def animated():
    """A GIF of two pictures."""
    first = Image.new("L", (4, 5), 0)
    second = Image.new("L", (4, 5), 255)
    return encoded(first, "GIF", save_all=True, append_images=[second], duration=100)
