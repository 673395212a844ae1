"""Images as Parquet in the form of Hugging Face's datasets: a column of PNG files, and their labels.

The column `image` is struct<bytes: binary, path: string>, with no path. Labels are int64. Where the schema's labels are
text, or the numbers 0, 1, ..., n - 1, they are positions among its labels, and the file says so to `datasets` as a
ClassLabel with their names; other whole numbers stand for themselves. So `datasets.load_dataset("parquet", ...)` shows
images with named classes, and `noisegate` reads the file again with the schema that made it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.output.image_batch import ImageBatch
from noisegate.output.png import check_drawable, png_bytes
from noisegate.output.whole import new_file
from noisegate.schema.pixels import ImageForm

if TYPE_CHECKING:
    import pyarrow as pa

# Of a row group: what a reader must decompress to see one image. It is what `datasets` writes for images.
_GROUP = 100


@contextmanager
def parquet_writer(out: Path, form: ImageForm, rows: int) -> Iterator[Callable[[ImageBatch], None]]:
    """Yields a function that appends images to the file `out`, which appears only when all are written.

    Args:
        out: The file.
        form: Of the images.
        rows: How many there will be; not needed here.

    Raises:
        OptionError: if the file exists or cannot be written, or images are neither grey nor colour.
    """
    import pyarrow.parquet as parquet

    check_drawable(form.shape, out)
    with new_file(out) as path, parquet.ParquetWriter(str(path), image_table_schema(form)) as writer:
        yield lambda batch: writer.write_table(image_table(batch, form), row_group_size=_GROUP)


def image_table_schema(form: ImageForm) -> pa.Schema:
    """Returns the Arrow schema of images with their labels, with what `datasets` needs to show them."""
    import pyarrow as pa

    image = image_column(form)
    fields = [(image, pa.struct({"bytes": pa.binary(), "path": pa.string()}))]
    features: dict[str, Any] = {image: {"_type": "Image"}}
    if form.label is not None:
        fields.append((form.label, pa.int64()))
        named = {"names": [str(label) for label in form.labels], "_type": "ClassLabel"}
        features[form.label] = named if _by_position(form) else {"dtype": "int64", "_type": "Value"}
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def image_table(batch: ImageBatch, form: ImageForm) -> pa.Table:
    """Returns images with their labels as a table of `image_table_schema`."""
    import pyarrow as pa

    columns: list[Any] = [[{"bytes": png_bytes(one), "path": None} for one in batch.pixels]]
    if form.label is not None:
        places = {label: place for place, label in enumerate(form.labels)}
        labels = batch.labels or ()
        columns.append([places[label] for label in labels] if _by_position(form) else list(labels))
    schema = image_table_schema(form)
    arrays = [pa.array(cells, type=field.type) for cells, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def image_column(form: ImageForm) -> str:
    """Returns the name of the column of images: "image", unless the label is called so."""
    return "image" if form.label != "image" else "picture"


def _by_position(form: ImageForm) -> bool:
    return not isinstance(form.labels[0], int) or tuple(form.labels) == tuple(range(len(form.labels)))
