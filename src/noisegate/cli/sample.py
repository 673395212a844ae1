"""`noisegate sample`: make synthetic records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisegate.cli.arguments import Json
from noisegate.cli.conditions import read_conditions
from noisegate.cli.console import print_json, say, steps
from noisegate.errors import OptionError


def sample(
    model: Annotated[Path, typer.Argument(help="Folder that `noisegate fit --out` wrote.")],
    n: Annotated[int, typer.Option("--records", "-n", help="Number of synthetic records.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .csv or .parquet.")],
    seed: Annotated[int | None, typer.Option("--seed", help="For the same records again.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Only records with this value: --where sex=Female, --where 'age>=18', --where age=18..30. Repeatable.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make synthetic records; costs no privacy, as often as you like.

    Example: `noisegate sample model -n 10000 -o synthetic.csv`
    """
    from noisegate.cli.writing import table_writer
    from noisegate.synthesizer import Synthesizer

    if n < 1:
        raise OptionError(f"-n {n}: the number of records must be at least 1.")
    asked = read_conditions(where)
    synthesizer = Synthesizer.load(model)
    batches = synthesizer.batches(n, seed=seed, where=asked)
    with table_writer(out, synthesizer.schema) as write, steps("Sampling", n) as progress:
        done = 0
        for batch in batches:
            write(batch)
            done += batch.num_rows
            progress(done, "")
    if as_json:
        print_json({"records": n, "out": str(out), "seed": seed, "where": where or []})
    else:
        say(f"Wrote {n:,} synthetic records to {out}. Hand {model / 'certificate.md'} over with them.")
