"""`noisegate sample`: make synthetic records.

What the command writes depends on the model and on the options::

    a model of one table or of images   one file                   `sample_files`
      with --package                    a folder to hand out       `sample_files`
      with --copies                     one file with all copies   `sample_copies`
    a model of linked tables            a folder of files          `sample_linked`

All of it is drawn from what was released, so it costs no privacy.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.app.cli.console import print_json, say, warn
from noisegate.app.cli.options import Json
from noisegate.app.cli.sample_files import (
    Conditions,
    SampleRequest,
    check_disk_space,
    csv_metadata,
    output_file,
    write_records,
)
from noisegate.errors import OptionError
from noisegate.seeds import MOST_SEED

if TYPE_CHECKING:
    from noisegate.answers.worth import Guard
    from noisegate.models.synthesizer import Synthesizer

_CONDITION = re.compile(r"\s*(.+?)\s*(>=|<=|=)\s*(.*?)\s*", re.DOTALL)
"""A value of --where: the column, the sign, and the value, which may be empty."""
_PRESENCE = re.compile(r"\s*([^=<>]+?)\s+is\s+(not\s+)?missing\s*")
"""A value of --where about missing values: the column, and "not " if there is none."""

_CALIBRATED = (
    "The rows were chosen so that means, correlations and linear regressions of "
    "{columns} agree with what `noisegate infer` estimates."
)


def sample_command(
    model: Annotated[
        Path, typer.Argument(help="Folder that `noisegate fit --out` wrote.")
    ],
    n: Annotated[
        int | None,
        typer.Option(
            "--records",
            "-n",
            help="Number of synthetic records (linked tables: of the first table). Not "
            "with --given.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write: .csv or .parquet. Images: .parquet (an image column), "
            ".npz (arrays `images` and `labels`), .csv (a column for each pixel), or "
            "no ending for PNG files in class folders. Linked tables: a new folder, "
            "with a CSV file for each; Parquet files if its name ends in .parquet.",
        ),
    ] = None,
    package: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="New folder to share: the records, as synthetic.csv (images: "
            "synthetic.parquet) or under the name that --out says, "
            "datapackage.json (Frictionless), croissant.json (MLCommons) and the "
            "certificate.",
        ),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--license",
            metavar="NAME|URL",
            help="With --package: licence of the records.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=MOST_SEED, help="Seed, to draw the same records again."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Only records with this value: --where sex=Female, --where 'age>=18', "
            "--where age=18..30, --where 'job is not missing'. Repeatable.",
        ),
    ] = None,
    even: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Equal numbers of records for each value of this column: --even "
            "diagnosis.",
        ),
    ] = None,
    independent: Annotated[
        bool,
        typer.Option(
            "--independent",
            help="Draw each row independently, instead of stratified.",
        ),
    ] = False,
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated",
            help="Choose rows whose own means, correlations and regressions are those "
            "that `infer` estimates, of the columns whose second moments were measured "
            "(`fit --for-inference`).",
        ),
    ] = False,
    calibrated_for: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Like --calibrated, for this column only; fewer columns agree better. "
            "Repeatable.",
        ),
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            min=2,
            max=1000,
            help="Write a copy from the model and one from each of M refits, with -n "
            "records each, one below the other. Their spread estimates the error "
            "of any statistic computed on each. A refit takes as long as the fit.",
        ),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Complete the records of this file: its values are kept, missing cells "
            "are filled and missing columns are added, drawn from the model given "
            "the rest.",
        ),
    ] = None,
    grid: Annotated[
        Path | None,
        typer.Option(help="Images: also draw some of each class into this PNG file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make synthetic records, at no privacy cost. For tests and standard errors use `infer`.

    Example: `noisegate sample model -n 10000 -o synthetic.csv`

    Images: `noisegate sample model -n 20000 -o synthetic.parquet --grid grid.png`

    Linked tables: `noisegate sample model -n 10000 -o synthetic`

    Missing cells filled: `noisegate sample model --given gaps.csv -o filled.csv`

    Rows that agree with `infer`: `noisegate sample model -n 10000 -o rows.csv
    --calibrated`

    With descriptions for programs: `noisegate sample model -n 10000 --package handout
    --license CC-BY-4.0`
    """
    from noisegate.models.folder import LINKED, kind_in
    from noisegate.models.synthesizer import Synthesizer, model_path

    if given is not None:
        unusable = _first_specified(
            {
                "--records": n,
                "--package": package,
                "--where": where,
                "--even": even,
                "--independent": independent,
                "--calibrated": calibrated,
                "--calibrated-for": calibrated_for,
                "--copies": copies,
                "--grid": grid,
            }
        )
        if unusable is not None:
            raise OptionError(
                f"{unusable} does not go with --given, whose records say how many "
                "there are and what they have; leave one of them out."
            )
        _sample_given(model, given, out, seed, as_json=as_json)
        return
    if n is None:
        raise OptionError(
            "--records is missing: how many records to make, such as -n 10000; or "
            "give --given FILE."
        )
    _check_request(n, out, package, licence)
    # What is wrong with the options is said before a large model is loaded.
    conditions = read_conditions(where)
    is_linked = kind_in(model_path(model)) == LINKED
    if is_linked:
        unusable = _first_specified(
            {
                "--package": package,
                "--even": even,
                "--grid": grid,
                "--independent": independent,
                "--calibrated": calibrated,
                "--calibrated-for": calibrated_for,
                "--copies": copies,
            }
        )
        if unusable is not None:
            raise OptionError(
                f"{unusable} applies to one table, and {model} makes linked "
                "tables; leave it out, and give --out FOLDER."
            )
        assert out is not None  # without --out there is --package
        from noisegate.app.cli.sample_linked import sample_linked

        sample_linked(
            model,
            n,
            out,
            seed=seed,
            conditions=conditions,
            where=where or [],
            as_json=as_json,
        )
        return

    synthesizer = Synthesizer.load(model)
    makes_images = synthesizer.schema.images is not None
    if grid is not None and not makes_images:
        raise OptionError(
            f"--grid {grid} shows images, and {model} makes a table; leave it out."
        )
    if copies is not None:
        unusable = _first_specified(
            {
                "--package": package,
                "--where": where,
                "--even": even,
                "--grid": grid,
                "--calibrated": calibrated,
                "--calibrated-for": calibrated_for,
            }
        )
        if unusable is not None:
            raise OptionError(
                f"{unusable} does not go with --copies; leave one of them out."
            )
        assert out is not None  # without --out there is --package
        _sample_copies(synthesizer, n, copies, out, seed, as_json=as_json)
        return
    if independent and makes_images:
        raise OptionError(
            f"--independent applies to tables; the images of {model} are always "
            "independent. Leave it out."
        )

    # What is written into the file, and said at the end: rows are no further evidence.
    guard = _guard_rows(synthesizer, n)
    metadata: dict[str, str] = {} if guard is None else dict(guard.metadata)
    calibrated_columns: tuple[str, ...] = ()
    if calibrated or calibrated_for:
        unusable = _first_specified(
            {"--where": where, "--even": even, "--independent": independent}
        )
        if unusable is not None:
            raise OptionError(
                f"{unusable} does not go with --calibrated, whose rows are chosen "
                "together, as those of all records; leave one of them out."
            )
        with _shown_warnings():
            calibrated_columns = synthesizer.calibrated_columns(calibrated_for)
        metadata["noisegate.calibrated"] = _CALIBRATED.format(
            columns=", ".join(calibrated_columns)
        )
    request = SampleRequest(
        n=n,
        seed=seed,
        where=conditions,
        even=even,
        independent=independent,
        calibrated=calibrated_columns,
    )
    with (
        _shown_warnings(),
        output_file(synthesizer, out, package, licence) as (file, final_path),
        csv_metadata(file, metadata, package),
    ):
        check_disk_space(synthesizer, n, file)
        write_records(
            synthesizer,
            request,
            file,
            grid=grid,
            metadata=metadata,
            is_in_package=package is not None,
        )
    if synthesizer.often_broken is not None:
        warn(synthesizer.often_broken)
    if guard is not None and guard.warning is not None:
        warn(guard.warning)
    if as_json:
        fields: dict[str, Any] = {
            "records": n,
            "out": str(final_path),
            "seed": seed,
            "where": where or [],
            "even": even,
        }
        if calibrated_columns:
            fields["calibrated"] = list(calibrated_columns)
        if grid is not None:
            fields["grid"] = str(grid)
        if package is not None:
            fields["package"] = str(package)
        if synthesizer.schema.has_rules:
            fields["kept_share"] = synthesizer.kept_share
        if guard is not None:
            fields["effective_n"] = guard.summary
        print_json(fields)
        return
    if package is None:
        advice = f"Share {model / 'certificate.md'} with them."
    else:
        advice = (
            f"{package} holds the records, their description and the certificate: "
            "share the whole folder."
        )
    say(f"Wrote {n:,} synthetic records to {final_path}. {advice}")
    if calibrated_columns:
        say(_CALIBRATED.format(columns=", ".join(calibrated_columns)))
    if guard is not None:
        say(guard.sentence)


@contextmanager
def _shown_warnings() -> Iterator[None]:
    """Shows what the block warns of, each once, after it has ended well."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(each.message) for each in caught):
        warn(text)


def _check_request(
    n: int, out: Path | None, package: Path | None, licence: str | None
) -> None:
    """Refuses what no model could do, before a model is read.

    Args:
        n: Value of --records.
        out: Value of --out.
        package: Value of --package.
        licence: Value of --license.

    Raises:
        OptionError: if there is no place to write to, a licence has no description to
            stand in, or the number of records is out of range.
    """
    from noisegate.models.synthesizer import SAMPLE_LIMIT

    if out is None and package is None:
        raise OptionError(
            "--out is missing: the file to write, such as synthetic.csv; or give "
            "--package DIR."
        )
    if licence is not None and package is None:
        raise OptionError(
            f"--license {licence} is written into the descriptions of --package "
            "DIR; give --package too, or leave it out."
        )
    if n >= SAMPLE_LIMIT:
        raise OptionError(
            f"-n {n:,}: at most {SAMPLE_LIMIT - 1:,} records are made at once; ask for "
            "fewer."
        )
    if n < 1:
        raise OptionError(f"-n {n}: the number of records must be at least 1.")


def _first_specified(options: Mapping[str, object]) -> str | None:
    """Returns the first of some options that was specified; None if none was.

    Args:
        options: Values by option: None, False or an empty list if it was left out.
    """
    return next((name for name, value in options.items() if value), None)


def _sample_copies(
    synthesizer: Synthesizer,
    n: int,
    refit_count: int,
    out: Path,
    seed: int | None,
    *,
    as_json: bool,
) -> None:
    """Writes a copy of a model and one of each of its refits, and says how to use them.

    Args:
        synthesizer: The model.
        n: Number of records of each copy.
        refit_count: Value of --copies.
        out: New file.
        seed: Value of --seed.
        as_json: Whether to print JSON for programs instead of text for people.
    """
    from noisegate.app.cli.sample_copies import write_copies

    write_copies(synthesizer, n, refit_count, out, seed)
    if as_json:
        print_json(
            {
                "records": n,
                "out": str(out),
                "seed": seed,
                "where": [],
                "even": None,
                "copies": refit_count,
            }
        )
        return
    say(
        f"Wrote {refit_count + 1:,} copies of {n:,} records to {out}: the column "
        ".imp is 0 for the model's own and numbers those of the refits."
    )
    say(
        "To combine the results from each copy: docs/inference.md, "
        "noisegate.app.copies.combine."
    )


def _sample_given(
    model: Path, given: Path, out: Path | None, seed: int | None, *, as_json: bool
) -> None:
    """Completes the records of a file, and says what the result holds.

    Args:
        model: Folder of the model.
        given: Value of --given.
        out: Value of --out.
        seed: Value of --seed.
        as_json: Whether to print JSON for programs instead of text for people.
    """
    from noisegate.app.cli.sample_given import write_completed
    from noisegate.models.folder import LINKED, kind_in
    from noisegate.models.synthesizer import Synthesizer, model_path

    if out is None:
        raise OptionError("--out is missing: the file to write, such as filled.csv.")
    if kind_in(model_path(model)) == LINKED:
        raise OptionError(
            f"--given applies to one table, and {model} makes linked tables; leave "
            "it out."
        )
    n_records = write_completed(Synthesizer.load(model), given, out, seed)
    if as_json:
        print_json(
            {
                "records": n_records,
                "out": str(out),
                "seed": seed,
                "where": [],
                "even": None,
                "given": str(given),
            }
        )
        return
    say(
        f"Wrote {n_records:,} completed records to {out}. They hold the values of "
        f"{given}, which the guarantee of {model} does not cover."
    )


def _guard_rows(synthesizer: Synthesizer, n: int) -> Guard | None:
    """Returns the effective sample size of the rows of a table, and the warning that goes with them.

    Args:
        synthesizer: The model.
        n: Number of rows.

    Returns:
        The sentences and metadata to pass on; None for images, and if the method
        released nothing that tells.
    """
    if synthesizer.schema.images is not None:
        return None
    from noisegate.answers.worth import guard

    return guard(synthesizer, n)


def read_conditions(texts: list[str] | None) -> Conditions:
    """Reads the conditions that synthetic records shall meet.

    Args:
        texts: Values of --where: NAME=VALUE, NAME>=VALUE, NAME<=VALUE, "NAME is
            missing" or "NAME is not missing".

    Returns:
        Conditions by column, as the parameter ``where`` of `Synthesizer.sample` takes
        them.

    Raises:
        OptionError: if one has another form, or there are two for one end of a column.

    Examples:
        >>> from noisegate.app.cli.sample import read_conditions
        >>> read_conditions(["sex=Female", "age>=18", "age<=30", "wage <= 900"])
        {'sex': 'Female', 'age': ('18', '30'), 'wage': (None, '900')}
        >>> read_conditions(["job is not missing", "wage is missing"])
        {'job': 'is not missing', 'wage': None}
    """
    from noisegate.schema.constraints import NOT_MISSING

    # By column, since an interval may be given in two conditions.
    values_by_sign: dict[str, dict[str, str]] = {}
    conditions: Conditions = {}
    for text in texts or []:
        presence = _PRESENCE.fullmatch(text)
        if presence is not None:
            name, negation = presence.groups()
            if name in conditions or name in values_by_sign:
                raise _repeated_condition(text, name)
            conditions[name] = NOT_MISSING if negation else None
            continue
        match = _CONDITION.fullmatch(text)
        # An empty value is that of a missing cell, and no end of an interval.
        if match is None or (match[2] != "=" and not match[3]):
            raise OptionError(
                f"--where {text!r} must look like NAME=VALUE, NAME>=VALUE, "
                "NAME<=VALUE, 'NAME is missing' or 'NAME is not missing'."
            )
        name, sign, value = match.groups()
        signs = values_by_sign.setdefault(name, {})
        # Only one >= and one <= go together.
        goes_with_others = sign != "=" and "=" not in signs and sign not in signs
        if name in conditions or (signs and not goes_with_others):
            raise _repeated_condition(text, name)
        signs[sign] = value

    for name, signs in values_by_sign.items():
        if "=" in signs:
            conditions[name] = signs["="]
        else:
            conditions[name] = (signs.get(">="), signs.get("<="))
    return conditions


def _repeated_condition(text: str, name: str) -> OptionError:
    """Returns the error for a second condition on one column."""
    return OptionError(
        f"--where {text!r} is the second condition on column {name!r}; give one."
    )
