"""One release of a set by the default method, in a process of its own: a copy, and what it took.

    python benchmarks/scoreboard/board_release.py SET FOLDER --seed N --out DIR

Only public names of noisegate are used, so that an earlier commit can be measured: its
packages are put on PYTHONPATH (`run.py --code`). DIR/measured.json has the seconds of
the processor, the megabytes, and the widths of `infer`.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from board_figures import DELTA, EPSILON, SETS
from harness.options import needed, positional, read_options

import noisegate
from noisegate import Gate, Schema, UserError

LINKED_SCHEMAS = Path(__file__).parents[1] / "linked" / "schemas"
QUESTIONS = {
    "infer_width_mean": "mean(x1)",
    "infer_width_share": "share(y = true)",
    "infer_width_corr": "corr(x1, w)",
    "infer_width_ols": "w ~ x1 + x2 + u + g + c",
}
"""What `regression` is asked."""


def processor_seconds() -> float:
    """Returns what this process and its children have taken of the processor."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(
            resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
    )


def peak_megabytes() -> float:
    """Returns the largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Bytes on macOS, kilobytes elsewhere.
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def release_table(folder: Path, seed: int, out: Path) -> dict[str, float]:
    """Writes copy.parquet, of as many records; returns what was measured.

    Args:
        folder: With train.csv and schema.toml.
        seed: Of the fit and the sample; the noise is fresh.
        out: Where the copy is written.
    """
    schema = Schema.from_toml(folder / "schema.toml")
    # As in the bake-off, the number of records is public.
    with (folder / "train.csv").open("rb") as lines:
        n_records = sum(1 for _ in lines) - 1
    noisegate.synthesize  # noqa: B018 - its imports do not count
    start = processor_seconds()
    model = noisegate.synthesize(
        folder / "train.csv",
        schema=schema,
        epsilon=EPSILON,
        delta=DELTA,
        method="pairwise",
        records=n_records,
        seed=seed,
        device="cpu",
    )
    copy = model.sample(n_records, seed=seed)
    measured = {
        "cpu_seconds": processor_seconds() - start,
        "peak_megabytes": peak_megabytes(),
    }
    pyarrow.parquet.write_table(copy, out / "copy.parquet")
    if folder.name == "regression":
        measured |= interval_widths(model)
    return measured


def interval_widths(model: noisegate.Synthesizer) -> dict[str, float]:
    """Returns the mean width of the intervals of each question that is answered."""
    widths: dict[str, float] = {}
    for name, question in QUESTIONS.items():
        try:
            answers = model.infer(question)
        except UserError:
            continue
        answer_widths = [
            answer.high - answer.low
            for answer in answers
            if answer.low is not None and answer.high is not None
        ]
        if answer_widths:
            widths[name] = sum(answer_widths) / len(answer_widths)
    return widths


def release_linked(name: str, folder: Path, seed: int, out: Path) -> dict[str, float]:
    """Writes a Parquet file of each synthetic table; returns what was measured."""
    # Earlier commits have these elsewhere, and tables without them.
    from noisegate.methods.linked import Linked
    from noisegate.schema.linked.schema import LinkedSchema

    schema = LinkedSchema.from_toml(LINKED_SCHEMAS / f"{name}.toml")
    train = {
        path.stem: pyarrow.parquet.read_table(path)
        for path in sorted((folder / "train").glob("*.parquet"))
    }
    start = processor_seconds()
    gate = Gate(train, schema=schema, epsilon=EPSILON, delta=DELTA)
    n_parents = len(train[schema.root.name])
    copies: dict[str, pa.Table] = dict(
        Linked(seed=seed).fit(gate).sample(n_parents, seed=seed)
    )
    measured = {
        "cpu_seconds": processor_seconds() - start,
        "peak_megabytes": peak_megabytes(),
    }
    for table_name, table in copies.items():
        pyarrow.parquet.write_table(table, out / f"{table_name}.parquet")
    return measured


def main() -> None:
    """Makes a release, and writes what it took."""
    options = read_options(
        __doc__,
        name=positional(str, choices=list(SETS)),
        folder=positional(Path),
        seed=needed(int),
        out=needed(Path),
    )
    options.out.mkdir(parents=True, exist_ok=True)
    if SETS[options.name].is_linked:
        measured = release_linked(
            options.name, options.folder, options.seed, options.out
        )
    else:
        measured = release_table(options.folder, options.seed, options.out)
    (options.out / "measured.json").write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
