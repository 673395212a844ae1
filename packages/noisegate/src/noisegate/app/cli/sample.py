"""`noisegate sample`: make synthetic records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.app.cli.console import print_json, say, show_progress, warn
from noisegate.app.cli.options import Json
from noisegate.atomic import new_file, unwritable
from noisegate.errors import OptionError
from noisegate.registry import extension
from noisegate.seeds import MOST_SEED

if TYPE_CHECKING:
    from noisegate.models.synthesizer import Synthesizer

# Cells from which the size of the file is estimated first, and cells of the file that it is estimated by.
_MANY_NUMBERS, _PROBE_NUMBERS = 50_000_000, 100_000


def sample_command(
    model: Annotated[
        Path, typer.Argument(help="Folder that `noisegate fit --out` wrote.")
    ],
    n: Annotated[
        int,
        typer.Option(
            "--records",
            "-n",
            help="Number of synthetic records; of linked tables, of those of the first.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write: .csv or .parquet. Images: .parquet (an image column), .npz (arrays `images` and "
            "`labels`), .csv (a column for each pixel), or no ending for PNG files in class folders. Linked tables: a "
            "new folder, with a CSV file for each; Parquet files if its name ends in .parquet.",
        ),
    ] = None,
    package: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="New folder to hand out: the records, as synthetic.csv (images: synthetic.parquet) or under the name "
            "that --out says, datapackage.json (Frictionless), croissant.json (MLCommons) and the certificate.",
        ),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--license",
            metavar="NAME|URL",
            help="With --package: under which the records are handed out.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_SEED, help="For the same records again."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Only records with this value: --where sex=Female, --where 'age>=18', --where age=18..30. Repeatable.",
        ),
    ] = None,
    even: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="As many records with each value of this column, whatever their shares: --even diagnosis.",
        ),
    ] = None,
    independent: Annotated[
        bool,
        typer.Option(
            "--independent",
            help="Draw each row alone, and not spread out as in a stratified survey.",
        ),
    ] = False,
    copies: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            min=2,
            max=1000,
            help="Write a copy of the model and one of each of M refits to it, each with -n records, one below the "
            "other: their spread tells the error of whatever is computed from each. A refit takes as long as the fit.",
        ),
    ] = None,
    grid: Annotated[
        Path | None,
        typer.Option(help="Images: also draw some of each class into this PNG file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make synthetic records; costs no privacy. Tests and standard errors of them are wrong: `infer` gives right ones.

    Example: `noisegate sample model -n 10000 -o synthetic.csv`

    Images: `noisegate sample model -n 20000 -o synthetic.parquet --grid grid.png`

    Linked tables: `noisegate sample model -n 10000 -o synthetic`

    With descriptions for programs: `noisegate sample model -n 10000 --package handout --license CC-BY-4.0`
    """
    from noisegate.models.folder import LINKED, kind_in
    from noisegate.models.synthesizer import MOST_ROWS, Synthesizer, model_path

    if out is None and package is None:
        raise OptionError(
            "--out is missing: the file to write, such as synthetic.csv; or give --package DIR."
        )
    if licence is not None and package is None:
        raise OptionError(
            f"--license {licence} stands in the descriptions of --package DIR; give it, or leave it out."
        )
    if n >= MOST_ROWS:
        raise OptionError(
            f"-n {n:,}: at most {MOST_ROWS - 1:,} records are made at once; ask for fewer."
        )
    if n < 1:
        raise OptionError(f"-n {n}: the number of records must be at least 1.")
    asked: dict[str, Any] = {"where": read_conditions(where), "even": even}
    if kind_in(model_path(model)) == LINKED:
        refused = {
            "--package": package,
            "--even": even,
            "grid": grid,
            "--independent": independent or None,
            "--copies": copies,
        }
        given = {"where": where, "conditions": asked["where"]}
        from noisegate.app.cli.sample_linked import sample_linked

        sample_linked(
            model, n, out, seed=seed, as_json=as_json, refused=refused, **given
        )
        return
    synthesizer = Synthesizer.load(model)
    if grid is not None and synthesizer.schema.images is None:
        raise OptionError(
            f"--grid {grid} shows images, and {model} makes a table; leave it out."
        )
    if copies is not None:
        for name, value in {
            "--package": package,
            "--where": where,
            "--even": even,
            "--grid": grid,
        }.items():
            if value is not None:
                raise OptionError(
                    f"{name} does not go with --copies; leave one of them out."
                )
        from noisegate.app.cli.infer import copies_command

        assert out is not None  # Without --out there is --package, refused above.
        copies_command(synthesizer, n, copies, out, seed)
        if as_json:
            print_json(
                {
                    "records": n,
                    "out": str(out),
                    "seed": seed,
                    "where": [],
                    "even": None,
                    "copies": copies,
                }
            )
        else:
            say(
                f"Wrote {copies + 1:,} copies of {n:,} records to {out}: .imp is 0 for the model's own, then counts."
            )
            say(
                "How to combine what is computed from each: docs/inference.md, noisegate.app.copies.combine."
            )
        return
    guard: Any = None
    if synthesizer.schema.images is None:
        asked["independent"] = independent
        from noisegate.answers.worth import guard as guard_of_rows

        guard = guard_of_rows(synthesizer, n)
    elif independent:
        raise OptionError(
            f"--independent is of tables, and {model} makes images, which are; leave it out."
        )
    metadata = {} if guard is None else guard.metadata
    with (
        _place(synthesizer, out, package, licence) as (file, shown),
        _described(file, metadata, package),
    ):
        _check_room(synthesizer, n, file)
        _write(synthesizer, n, file, seed, asked, grid, metadata)
    if synthesizer.often_broken is not None:
        warn(synthesizer.often_broken)
    if guard is not None and guard.warning is not None:
        warn(guard.warning)
    if as_json:
        given = {"grid": grid, "package": package}
        more: dict[str, Any] = {
            name: str(path) for name, path in given.items() if path is not None
        }
        if synthesizer.schema.constraints:
            more["kept_share"] = synthesizer.kept_share
        if guard is not None:
            more["effective_n"] = guard.told
        print_json(
            {
                "records": n,
                "out": str(shown),
                "seed": seed,
                "where": where or [],
                "even": even,
                **more,
            }
        )
    else:
        inside = (
            f"{package} describes them, and holds the certificate: hand it over whole."
        )
        hand_over = (
            f"Share {model / 'certificate.md'} with them."
            if package is None
            else inside
        )
        say(f"Wrote {n:,} synthetic records to {shown}. {hand_over}")
        if guard is not None:
            say(guard.sentence)


@contextmanager
def _described(
    file: Path, metadata: Mapping[str, str], package: Path | None
) -> Iterator[None]:
    """Writes what rows are worth beside a CSV file, where CSVW looks for it; the block refuses one that cannot be."""
    if (
        not metadata
        or package is not None
        or file.suffix != ".csv"
        or file.exists()
        or not file.parent.is_dir()
    ):
        yield
        return
    told = {name.partition(".")[2]: text for name, text in metadata.items()}
    told["effective_n"] = json.loads(told["effective_n"])
    page = {"@context": "http://www.w3.org/ns/csvw", "url": file.name, "notes": [told]}
    with new_file(file.with_name(f"{file.name}-metadata.json")) as beside:
        yield
        beside.write_text(
            json.dumps(page, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


@contextmanager
def _place(
    synthesizer: Synthesizer,
    out: Path | None,
    package: Path | None,
    licence: str | None,
) -> Iterator[tuple[Path, Path]]:
    """Yields the file to write, and where it will lie in the end; a package appears when the block ends well."""
    if package is None:
        assert out is not None  # one of both is given
        yield out, out
        return
    from noisegate.models.package import new_package

    with new_package(package, out, synthesizer.release, licence=licence) as file:
        yield file, package / file.name


def _check_room(synthesizer: Synthesizer, n: int, out: Path) -> None:
    """Finds a file that the disk could not hold, by the size of a small one of the same kind."""
    if (
        n * len(synthesizer.schema.columns) < _MANY_NUMBERS
        or not out.absolute().parent.is_dir()
    ):
        return
    rows = max(_PROBE_NUMBERS // len(synthesizer.schema.columns), 10)
    with TemporaryDirectory() as folder:
        probe = Path(folder) / f"probe{out.suffix}"
        _write(synthesizer, rows, probe, 0, {}, None, {})
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        size = n / rows * sum(path.stat().st_size for path in files)
    free = disk_usage(out.absolute().parent).free
    if size > free:
        says = f"-n {n:,}: {out} would have about {size / 1e9:,.1f} GB, and there are {free / 1e9:,.1f} GB free"
        raise OptionError(f"{says}; ask for fewer records, or choose another disk.")


def _write(
    synthesizer: Synthesizer,
    n: int,
    out: Path,
    seed: int | None,
    asked: Mapping[str, Any],
    grid: Path | None,
    metadata: Mapping[str, str],
) -> None:
    from noisegate.models.output.sample_file import sample_writer

    form = synthesizer.schema.images
    shown: Any = None
    if grid is not None and form is not None:
        shown = extension("noisegate.pictures", "grid", f"what draws --grid {grid}")(
            form=form, out=grid
        )
        if len(form.labels) > shown.most_classes:
            say(
                f"{grid} shows the first {shown.most_classes} of {len(form.labels):,} classes."
            )
    batches: Iterator[Any] = (
        synthesizer.batches if form is None else synthesizer.images
    )(n, seed=seed, **asked)
    with ExitStack() as files:
        drawing = (
            None if shown is None else files.enter_context(new_file(shown.out, "grid"))
        )
        write = files.enter_context(sample_writer(out, synthesizer.schema, n, metadata))
        progress, done = files.enter_context(show_progress("Sampling", n)), 0
        for batch in batches:
            write(batch)
            if shown is not None:
                shown.add(batch)
            done += len(batch)
            progress(done, "")
        if shown is not None and drawing is not None:
            # Here, where neither file is in its place yet, so that a full disk leaves none of them.
            try:
                shown.draw().save(drawing, format="png")
            except OSError as error:
                raise unwritable(shown.out, "grid", error) from None


_CONDITION = re.compile(r"\s*(.+?)\s*(>=|<=|=)\s*(.*?)\s*", re.DOTALL)


def read_conditions(
    texts: list[str] | None,
) -> dict[str, str | tuple[str | None, str | None]]:
    """Returns what each column shall be by conditions such as `age>=18`, as `Synthesizer.sample` takes it."""
    said: dict[str, dict[str, str]] = {}
    for text in texts or []:
        match = _CONDITION.fullmatch(text)
        if match is None or (match[2] != "=" and not match[3]):
            raise OptionError(
                f"--where {text!r} must look like NAME=VALUE, NAME>=VALUE or NAME<=VALUE."
            )
        name, sign, value = match.groups()
        signs = said.setdefault(name, {})
        if sign in signs or "=" in signs or (sign == "=" and signs):
            raise OptionError(
                f"--where {text!r} speaks of column {name!r} once more; say it in one condition."
            )
        signs[sign] = value
    return {
        name: signs["="] if "=" in signs else (signs.get(">="), signs.get("<="))
        for name, signs in said.items()
    }
