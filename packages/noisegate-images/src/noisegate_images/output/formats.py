"""Files of images, written in constant memory: they appear when they are whole, or not at all.

- ``.npz``: arrays `images`, uint8 (rows, height, width, channels), and `labels`, int64 or text; no pickle.
- ``.parquet``: the form of Hugging Face's datasets. The column `image` is struct<bytes: binary, path: string> of PNG
  files, with no path. Labels are int64: where the schema's are text, or the numbers 0, 1, ..., n - 1, positions among
  them, of which the file says to `datasets` that it is a ClassLabel with their names; else they stand for themselves.
- a folder: DIR/LABEL/000001.png, or DIR/000001.png without labels.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.atomic import new_file, new_folder
from noisegate.errors import OptionError, said
from noisegate.models.output.sample_file import ImageBatch
from noisegate.schema.pixels import ImageForm, ImageShape

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL import ImageFont
    from PIL.Image import Image

    Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont

Write: TypeAlias = Callable[[ImageBatch], None]

_MODES = {1: "L", 3: "RGB"}
_GROUP = 100  # of a row group: what is decompressed to see one image; `datasets` writes as many
_LONGEST = 255  # bytes of the name of a folder


def image_writer(
    out: str | Path, form: ImageForm, rows: int
) -> AbstractContextManager[Write]:
    """Returns a context that gives a function to write images with; they appear when it ends well, or not at all.

    ::

        with image_writer("digits.parquet", synthesizer.schema.images, 1000) as write:
            for batch in synthesizer.images(1000):
                write(batch)

    The file ends in .parquet or .npz, or is a folder, whose name has no ending; `rows` is how many images there will
    be.

    Raises:
        OptionError: if the ending is another one; on entering, if the file exists or cannot be written, or cannot hold
            such images or labels.
        ValueError: when it ends, if another number of images was written to .npz.
    """
    path = Path(out)
    if path.suffix not in WRITERS:
        raise OptionError(
            f"{said('out', path)}: the ending of images must be .parquet, .npz or .csv, or none for a folder of PNG "
            f"files, not {path.suffix!r}."
        )
    return WRITERS[path.suffix](path, form, rows)


def check_drawable(shape: ImageShape, out: object, name: str = "out") -> str:
    """Returns how Pillow calls images of so many channels; an OptionError if a PNG file cannot hold them."""
    if shape.channels not in _MODES:
        raise OptionError(
            f"{said(name, out)}: images of {shape.channels} channels are neither grey (1) nor colour (3), so no "
            "picture can hold them; write .npz."
        )
    return _MODES[shape.channels]


def png_bytes(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Returns an image of one channel or three, (height, width, channels), as a PNG file."""
    from PIL import Image

    target = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(
        target, format="png"
    )
    return target.getvalue()


@contextmanager
def _arrays(out: Path, form: ImageForm, rows: int) -> Iterator[Write]:
    written, labels = 0, list[str | int]()
    with (
        new_file(out) as path,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        with archive.open(_entry("images"), "w", force_zip64=True) as file:
            header = {
                "descr": "|u1",
                "fortran_order": False,
                "shape": (rows, *form.shape.axes),
            }
            np.lib.format.write_array_header_1_0(file, header)

            def write(batch: ImageBatch) -> None:
                nonlocal written
                file.write(np.ascontiguousarray(batch.pixels).data)
                labels.extend(batch.labels or ())
                written += len(batch)

            yield write
        if written != rows:
            raise ValueError(f"{written} images were written, {rows} were announced")
        if form.label is None:
            return
        values = np.array(
            labels, dtype=np.int64 if isinstance(form.labels[0], int) else np.str_
        )
        if values.tolist() != labels:
            # NumPy's text ends at its last character that is not NUL.
            raise OptionError(
                f"{said('out', out)}: a label ends with NUL, which NumPy drops; write .parquet."
            )
        with archive.open(_entry("labels"), "w", force_zip64=True) as file:
            np.lib.format.write_array(file, values, allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(f"{name}.npy")
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


@contextmanager
def _parquet(out: Path, form: ImageForm, rows: int) -> Iterator[Write]:
    import pyarrow.parquet as parquet

    check_drawable(form.shape, out)
    schema, table = image_rows(form)
    with new_file(out) as path, parquet.ParquetWriter(str(path), schema) as writer:
        yield lambda batch: writer.write_table(table(batch), row_group_size=_GROUP)


def image_rows(form: ImageForm) -> tuple[pa.Schema, Callable[[ImageBatch], pa.Table]]:
    """Returns the Arrow schema of images as PNG files with their labels, and what makes such tables of batches."""
    import pyarrow as pa

    by_position = form.labels == tuple(range(len(form.labels))) or isinstance(
        next(iter(form.labels), None), str
    )
    image = "image" if form.label != "image" else "picture"
    fields = [(image, pa.struct({"bytes": pa.binary(), "path": pa.string()}))]
    features: dict[str, Any] = {image: {"_type": "Image"}}
    if form.label is not None:
        fields.append((form.label, pa.int64()))
        named = {"names": [str(label) for label in form.labels], "_type": "ClassLabel"}
        features[form.label] = (
            named if by_position else {"dtype": "int64", "_type": "Value"}
        )
    schema = pa.schema(
        fields, metadata={"huggingface": json.dumps({"info": {"features": features}})}
    )
    places = {
        label: place if by_position else label
        for place, label in enumerate(form.labels)
    }

    def table(batch: ImageBatch) -> pa.Table:
        columns: list[Any] = [
            [{"bytes": png_bytes(one), "path": None} for one in batch.pixels]
        ]
        if form.label is not None:
            columns.append([places[label] for label in batch.labels or ()])
        arrays = [
            pa.array(cells, type=kind)
            for cells, kind in zip(columns, schema.types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    return schema, table


def image_table(batches: Iterable[ImageBatch], form: ImageForm) -> pa.Table:
    """Returns images, as PNG files, with their labels, in the columns that Hugging Face's library shows."""
    import pyarrow as pa

    schema, rows = image_rows(form)
    return pa.concat_tables([schema.empty_table(), *map(rows, batches)])


@contextmanager
def _folder(out: Path, form: ImageForm, rows: int) -> Iterator[Write]:
    """Files are numbered within their class, from 1, in digits enough for `rows`; no image, no folder of a class."""
    check_drawable(form.shape, out)
    for name in map(str, form.labels):
        unfit = (
            not name
            or name.startswith(".")
            or any(letter in name for letter in "/\\\0")
        )
        if unfit or len(name.encode()) > _LONGEST:
            unfit_label = f"label {name!r} cannot be the name of a folder"
            raise OptionError(
                f"{said('out', out)}: {unfit_label}; write .parquet or .npz."
            )
    digits, seen = max(6, len(str(rows))), Counter[str]()
    with new_folder(out) as folder:

        def write(batch: ImageBatch) -> None:
            names = (
                [""] * len(batch) if batch.labels is None else map(str, batch.labels)
            )
            for name, pixels in zip(names, batch.pixels, strict=True):
                if name not in seen:
                    (folder / name).mkdir(exist_ok=not name)
                seen[name] += 1
                (folder / name / f"{seen[name]:0{digits}}.png").write_bytes(
                    png_bytes(pixels)
                )

        yield write


WRITERS = {
    ".parquet": _parquet,
    ".npz": _arrays,
    "": _folder,
}  # by ending; none for a folder


MOST_CLASSES = 100  # classes in a picture at most, the first ones of the schema: more would not be examined
_ROWS = 20  # of a block of classes
_ACROSS, _ACROSS_BLOCKS = 10, 5  # images of a class, where there is one block or more
_LEAST_SIDE, _GAP, _LETTERS = 56, 4, 14  # pixels of the picture
_MOST_NAME = 24
_PAPER, _NOTHING, _INK = 255, 225, 40  # grey


class SampleGrid:
    """Gathers the first images of each class, and draws them to `out`; an OptionError if not grey and not in colour."""

    most_classes: ClassVar[int] = MOST_CLASSES

    def __init__(self, *, form: ImageForm, out: Path) -> None:
        self.form, self.out = form, out
        self._mode = check_drawable(form.shape, out, "grid")
        labels: tuple[str | int | None, ...] = form.labels[:MOST_CLASSES] or (None,)
        self._found: dict[str | int | None, list[npt.NDArray[np.uint8]]] = {
            label: [] for label in labels
        }

    @property
    def across(self) -> int:
        """How many images of a class are shown; without classes, of a row."""
        return _ACROSS if len(self._found) <= _ROWS else _ACROSS_BLOCKS

    def add(self, batch: ImageBatch) -> None:
        """Takes the images that are needed yet."""
        wanted = self.across if batch.labels is not None else self.across**2
        labels: tuple[str | int | None, ...] = batch.labels or (None,) * len(batch)
        for label, pixels in zip(labels, batch.pixels, strict=True):
            found = self._found.get(label)
            if found is not None and len(found) < wanted:
                found.append(pixels.copy())

    def draw(self) -> Image:
        """Returns the picture; where there were too few images of a class, places stay empty."""
        from PIL import Image, ImageDraw

        # Small images are enlarged by whole pixels, so that they stay as they are.
        scale = max(
            math.ceil(_LEAST_SIDE / max(self.form.shape.height, self.form.shape.width)),
            1,
        )
        side_y, side_x = scale * self.form.shape.height, scale * self.form.shape.width
        rows, font = list(self._rows()), font_of("DejaVuSans", _LETTERS)
        names = max(
            (math.ceil(font.getlength(name)) + 2 * _GAP for name, _ in rows if name),
            default=0,
        )
        width = names + self.across * (side_x + _GAP) + _GAP
        size = (
            math.ceil(len(rows) / _ROWS) * width,
            min(len(rows), _ROWS) * (side_y + _GAP) + _GAP,
        )
        picture = Image.new(self._mode, size, self._grey(_PAPER))
        pencil = ImageDraw.Draw(picture)
        for place, (name, images) in enumerate(rows):
            left, top = place // _ROWS * width, place % _ROWS * (side_y + _GAP) + _GAP
            middle = (left + names - _GAP, top + side_y // 2)
            pencil.text(middle, name, fill=self._grey(_INK), font=font, anchor="rm")
            for column in range(self.across):
                x, y = left + names + _GAP + column * (side_x + _GAP), top
                if column < len(images):
                    flat = (
                        images[column][:, :, 0] if self._mode == "L" else images[column]
                    )
                    picture.paste(
                        Image.fromarray(
                            flat.repeat(scale, axis=0).repeat(scale, axis=1)
                        ),
                        (x, y),
                    )
                else:
                    pencil.rectangle(
                        ((x, y), (x + side_x - 1, y + side_y - 1)),
                        outline=self._grey(_NOTHING),
                    )
        return picture

    def write(self) -> None:
        """Writes the picture to `out`, a new PNG file."""
        with new_file(self.out, "grid") as path:
            self.draw().save(path, format="png")

    def _rows(self) -> Iterator[tuple[str, list[npt.NDArray[np.uint8]]]]:
        for label, images in self._found.items():
            if label is not None:
                plain = " ".join(str(label).split())
                yield (
                    plain
                    if len(plain) <= _MOST_NAME
                    else f"{plain[: _MOST_NAME - 1]}…",
                    images,
                )
                continue
            for start in range(0, max(len(images), 1), self.across):
                yield "", images[start : start + self.across]

    def _grey(self, level: int) -> int | tuple[int, int, int]:
        return level if self._mode == "L" else (level, level, level)


@cache
def font_of(name: str, size: int) -> Font:
    """Returns a font of matplotlib, whose letters are of more alphabets than Pillow's own; that one where it lacks."""
    from PIL import ImageFont

    found = find_spec("matplotlib")  # finds it without importing it
    folder = (
        Path(found.origin).parent
        if found is not None and found.origin is not None
        else Path()
    )
    try:
        return ImageFont.truetype(
            folder / "mpl-data" / "fonts" / "ttf" / f"{name}.ttf", size
        )
    except OSError:
        return ImageFont.load_default(size)
