"""`noisegate example`: a simulated table on disk, to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from noisegate.app.cli.console import OUT, print_json
from noisegate.app.cli.options import Json
from noisegate.app.example import SCHEMA_FILE, TEST_FILE, TRAIN_FILE, write_example
from noisegate.errors import OptionError


def example_command(
    folder: Annotated[
        Path, Argument(help="Folder to write into; it must not exist yet.")
    ] = Path("noisegate-example"),
    as_json: Json = False,
) -> None:
    """Write a table of 20,000 simulated patients and its schema, to try commands on.

    They are nobody's records. One in five is held out for evaluation.

    Example: `noisegate example trial`
    """
    from noisegate.models.folder import write_folder

    if folder.exists():
        raise OptionError(f"{folder} exists; choose another folder, or remove it.")
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise OptionError(
            f"{parent} is not a folder; make it first, or choose another."
        )
    write_folder(folder, write_example)
    paths = {
        "records": str(folder / TRAIN_FILE),
        "test": str(folder / TEST_FILE),
        "schema": str(folder / SCHEMA_FILE),
    }
    if as_json:
        print_json(paths)
        return
    OUT.print(
        f"{paths['records']}: simulated patients. {paths['test']}: held-out "
        f"patients, to evaluate on. {paths['schema']}: the public description of "
        f"the columns.\nNext: noisegate plan --schema {paths['schema']} --epsilon "
        "1 --records 16000",
        soft_wrap=True,
        markup=False,
    )
