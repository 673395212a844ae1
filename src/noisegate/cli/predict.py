"""`noisegate predict`: labels and their probabilities, by a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisegate.atomic import check_outside
from noisegate.cli.arguments import Json
from noisegate.cli.console import print_json, say, steps


def predict_command(
    model: Annotated[Path, typer.Argument(help="Folder that `noisegate fit --method dp-llm --out` wrote.")],
    data: Annotated[Path, typer.Argument(help="Records of your own, CSV or Parquet; the label may be left out.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .csv or .parquet.")],
    show_values: Annotated[bool, typer.Option("--show-values", help="Let errors quote values of DATA.")] = False,
    as_json: Json = False,
) -> None:
    """Predict the label of records, line by line; costs no privacy, as often as you like.

    Writes the label and the probability of each class, which is not calibrated, and nothing else of the records.

    Example: `noisegate predict model new.csv -o predictions.csv`
    """
    import numpy as np
    import pyarrow as pa

    from noisegate.cli.explaining import read_records
    from noisegate.cli.writing import table_writer
    from noisegate.models.locally_linear import LocallyLinear
    from noisegate.schema import Schema

    check_outside(out, data)
    classifier = LocallyLinear.load(model)
    label = classifier.release.schema.label_column
    assert label is not None
    done = 0
    batches = read_records(data, classifier, show_values=show_values)
    with table_writer(out, Schema((label,))) as write, steps("Predicting", None) as progress:
        for records in batches:
            chances = classifier.probabilities(records)
            found = [classifier.classes[k] for k in np.argmax(chances, axis=1)]
            columns = {f"probability of {one}": chances[:, k] for k, one in enumerate(classifier.classes)}
            write(pa.table({label.name: found, **columns}))
            done += len(records)
            progress(0, f"{done:,}")
    if as_json:
        print_json({"records": done, "out": str(out)})
    else:
        say(f"Wrote {done:,} predictions to {out}.")
