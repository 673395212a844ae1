"""Files of synthetic records: where `noisegate sample` writes, and what beside.

A file appears when it is whole. So everything that may fail is done inside the blocks
of `output_file` and `csv_metadata`: if it does, nothing is left behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from noisegate.app.cli.console import say, show_progress
from noisegate.atomic import new_file, unwritable
from noisegate.errors import OptionError
from noisegate.registry import extension

if TYPE_CHECKING:
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.schema import Schema

_MIN_CELLS_CHECKED = 50_000_000
"""Cells of a file from which on its size is estimated before it is written."""
_PROBE_CELLS = 100_000
"""Cells of the small file by which the size of a large one is estimated."""
Conditions: TypeAlias = dict[str, str | tuple[str | None, str | None] | None]
"""What each column shall be: a value, or the ends of a closed interval, None for open
ones; all as text."""
_NO_METADATA: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class SampleRequest:
    """Which synthetic records are to be drawn; see `Synthesizer.sample`.

    Attributes:
        n: Number of records.
        seed: Seed for the same records again; None for others each time.
        where: What each column shall be.
        even: Column of which each value shall be as frequent; None for the model's
            shares.
        independent: Whether each row is drawn alone.
        calibrated: Columns of which rows agree with `infer`; none for rows as drawn.
    """

    n: int
    seed: int | None = None
    where: Conditions = field(default_factory=dict)
    even: str | None = None
    independent: bool = False
    calibrated: tuple[str, ...] = ()

    def batches(self, synthesizer: Synthesizer) -> Iterator[Any]:
        """Draws the records in batches, in constant memory.

        Args:
            synthesizer: The model.

        Returns:
            Arrow tables, or an `ImageBatch` each if the model makes images.

        Raises:
            OptionError: if there can be no such records.
        """
        makes_images = synthesizer.schema.images is not None
        draw = synthesizer.images if makes_images else synthesizer.batches
        return draw(
            self.n,
            seed=self.seed,
            where=self.where,
            even=self.even,
            independent=self.independent,
            calibrated=self.calibrated,
        )


@contextmanager
def output_file(
    synthesizer: Synthesizer,
    out: Path | None,
    package: Path | None,
    licence: str | None,
) -> Iterator[tuple[Path, Path]]:
    """Opens the place of the records: a file, or a package that is built around it.

    Args:
        synthesizer: The model, whose certificate goes into a package.
        out: Value of --out; with a package, the name of the file in it, or None.
        package: Value of --package: a new folder, which appears when the block ends
            well; None for a file alone.
        licence: Under which a package is released; None for none.

    Yields:
        The path to write to, and the path where the file will be in the end.
    """
    if package is None:
        assert out is not None  # the command line has one of the two
        yield out, out
        return
    from noisegate.models.package import new_package

    with new_package(package, out, synthesizer.release, licence=licence) as file:
        yield file, package / file.name


@contextmanager
def csv_metadata(
    file: Path, metadata: Mapping[str, str], package: Path | None
) -> Iterator[None]:
    """Writes the effective sample size beside a CSV file, where CSVW looks for metadata.

    The file FILE-metadata.json appears when the block ends well. A Parquet file holds
    its metadata itself, and a package has descriptions of its own.

    Args:
        file: The file of records, which the block writes.
        metadata: Texts by name, as ``{"noisegate.note": "..."}``; empty for none.
        package: Value of --package.
    """
    is_single_csv = package is None and file.suffix == ".csv"
    # Else the block refuses to write the records.
    is_writable = not file.exists() and file.parent.is_dir()
    if not metadata or not is_single_csv or not is_writable:
        yield
        return
    note: dict[str, Any] = {
        name.partition(".")[2]: text for name, text in metadata.items()
    }
    note["effective_n"] = json.loads(note["effective_n"])
    page = {"@context": "http://www.w3.org/ns/csvw", "url": file.name, "notes": [note]}
    with new_file(file.with_name(f"{file.name}-metadata.json")) as metadata_file:
        yield
        text = json.dumps(page, indent=1, ensure_ascii=False)
        metadata_file.write_text(text + "\n", encoding="utf-8")


def check_disk_space(synthesizer: Synthesizer, n: int, out: Path) -> None:
    """Refuses a file that the disk could not hold, before hours are spent on it.

    The size is estimated by a small file of the same kind; that of a small request is
    not checked.

    Args:
        synthesizer: The model.
        n: Number of records.
        out: The file.

    Raises:
        OptionError: if the disk has too little room.
    """
    column_count = len(synthesizer.schema.columns)
    folder = out.absolute().parent
    if n * column_count < _MIN_CELLS_CHECKED or not folder.is_dir():
        return
    probe_rows = max(_PROBE_CELLS // column_count, 10)
    with TemporaryDirectory() as temporary:
        probe = Path(temporary) / f"probe{out.suffix}"
        write_records(synthesizer, SampleRequest(n=probe_rows, seed=0), probe)
        # Images without an ending are a folder of files.
        probe_files = [path for path in Path(temporary).rglob("*") if path.is_file()]
        probe_bytes = sum(path.stat().st_size for path in probe_files)
    expected_bytes = n / probe_rows * probe_bytes
    free_bytes = disk_usage(folder).free
    if expected_bytes > free_bytes:
        raise OptionError(
            f"-n {n:,}: {out} would have about {expected_bytes / 1e9:,.1f} GB, and "
            f"there are {free_bytes / 1e9:,.1f} GB free; ask for fewer records, or "
            "choose another disk."
        )


def write_records(
    synthesizer: Synthesizer,
    request: SampleRequest,
    out: Path,
    *,
    grid: Path | None = None,
    metadata: Mapping[str, str] = _NO_METADATA,
    is_in_package: bool = False,
) -> None:
    """Draws synthetic records and writes them to a new file, batch by batch.

    Args:
        synthesizer: The model.
        request: Which records.
        out: The file, whose ending says its format.
        grid: PNG file into which some images of each class are drawn, too; None for
            none.
        metadata: Texts by name for the footer of a Parquet file.
        is_in_package: Whether the file stands in a package, whose descriptions tell
            programs that it is plain CSV, whatever files of the schema are.

    Raises:
        OptionError: if there can be no such records, or a file cannot be written.
    """
    from noisegate.models.output.sample_file import sample_writer

    picture = None if grid is None else _start_grid(grid, synthesizer.schema)
    batches = request.batches(synthesizer)
    schema = synthesizer.schema
    if is_in_package:
        from noisegate.schema.file_form import PLAIN_CSV

        schema = replace(schema, file=PLAIN_CSV)
    with ExitStack() as files:
        picture_file: Path | None = None
        if picture is not None:
            picture_file = files.enter_context(new_file(picture.out, "grid"))
        write = files.enter_context(sample_writer(out, schema, request.n, metadata))
        progress = files.enter_context(show_progress("Sampling", request.n))
        written_count = 0
        for batch in batches:
            write(batch)
            if picture is not None:
                picture.add(batch)
            written_count += len(batch)
            progress(written_count, "")
        if picture is not None and picture_file is not None:
            # Inside the block neither file has appeared yet, so that a full disk leaves
            # none of them.
            try:
                picture.draw().save(picture_file, format="png")
            except OSError as error:
                raise unwritable(picture.out, "grid", error) from None


def _start_grid(grid: Path, schema: Schema) -> Any:
    """Returns what draws images into a grid, and says which classes it leaves out."""
    image_form = schema.images
    assert image_form is not None  # the command line refuses --grid for tables
    grid_class = extension("noisegate.pictures", "grid", f"what draws --grid {grid}")
    picture = grid_class(form=image_form, out=grid)
    if len(image_form.labels) > picture.most_classes:
        say(
            f"{grid} shows the first {picture.most_classes} of "
            f"{len(image_form.labels):,} classes."
        )
    return picture
