"""`noisegate evaluate`: how useful are the synthetic records?"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from noisegate.cli.arguments import Json, SchemaOption, require_schema
from noisegate.cli.console import ERR, OUT, print_json, steps
from noisegate.cli.writing import new_file


def evaluate(
    synthetic: Annotated[Path, typer.Option("--synthetic", help="Synthetic records, CSV or Parquet.")],
    test: Annotated[Path, typer.Option("--test", help="Real records that the fit did not use.")],
    schema: SchemaOption = None,
    train: Annotated[
        Path | None, typer.Option("--train", help="Real records that the fit used: gives the ceiling to compare with.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the classifiers and of the choice of triples.")] = 0,
    classifiers: Annotated[
        str, typer.Option("--classifiers", help="three, or twelve: those of the papers, slower.")
    ] = "three",
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="With twelve: how many run side by side. Default: every core.")
    ] = None,
    picture: Annotated[Path | None, typer.Option("--picture", help="Write a comparison picture to this PNG.")] = None,
    show_values: Annotated[bool, typer.Option("--show-values", help="Let errors quote private values.")] = False,
    as_json: Json = False,
) -> None:
    """Train on synthetic, test on real, and compare marginals.

    The figures are computed on real data and are not covered by the guarantee: keep them private.

    Example: `noisegate evaluate --synthetic synthetic.csv --test real_test.csv --schema schema.toml`
    """
    from noisegate.data.frames import read_table
    from noisegate.evaluation import evaluate as measure
    from noisegate.evaluation.downstream import COUNTS, known_classifiers
    from noisegate.schema import Schema

    chosen = known_classifiers(classifiers)
    known = Schema.from_toml(require_schema(schema))
    with new_file(picture, "--picture") if picture else nullcontext() as image:
        with ERR.status("Reading"):
            made = read_table(synthetic, known, show_values=show_values)
            held_out = read_table(test, known, show_values=show_values)
            used = read_table(train, known, show_values=show_values) if train else None
        total = COUNTS[chosen] * (1 if used is None else 2)
        with steps("Training classifiers and counting marginals", total) as update:
            report = measure(
                made,
                held_out,
                known,
                used,
                seed=seed,
                classifiers=chosen,
                jobs=jobs,
                progress=lambda name, done, _: update(done, name),
            )
        if image:
            from noisegate.report import comparison_picture

            comparison_picture(made, held_out if used is None else used, known, image)
    if as_json:
        print_json(report.to_json())
    else:
        OUT.print(report.render())
