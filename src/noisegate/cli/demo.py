"""`noisegate demo`: the whole way, on a real sensitive survey that ships inside statsmodels."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from noisegate.cli.arguments import Json
from noisegate.cli.console import ERR, OUT, print_json, say, steps
from noisegate.errors import OptionError

MARKER = "demo.json"
TEST_EVERY = 5


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to fill.")] = Path("noisegate-demo"),
    epsilon: Annotated[float, typer.Option("--epsilon", help="ε of the guarantee.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Make a private synthetic copy of a real sensitive survey: 6,366 answers on marriage and affairs (Redbook, 1974).

    The survey ships inside statsmodels; nothing is downloaded. One answer in five is kept aside to test on.
    """
    from noisegate.data.frames import read_table
    from noisegate.evaluation import evaluate
    from noisegate.gate.gate import Gate
    from noisegate.methods.merf import DPMERF
    from noisegate.report import comparison_picture
    from noisegate.schema import Schema

    _make_room(out)
    schema_file = out / "schema.toml"
    schema_file.write_text(resources.files("noisegate.cli").joinpath("demo_schema.toml").read_text("utf-8"), "utf-8")
    schema = Schema.from_toml(schema_file)
    train, test = _write_survey(out)
    say("1. A survey on marriage and affairs, and a schema that says what is publicly known about its columns.")
    gate = Gate(train, schema=schema, epsilon=epsilon, unit="respondent")
    method = DPMERF()
    release = method.ask(gate)
    say(
        f"2. The gate: {len(release.values)} noisy sums left it, epsilon = {epsilon:g}. The records are not used again."
    )
    fitting = method.fitting(release)
    with steps("3. Fitting a generator to the sums", fitting.settings.steps) as progress:
        fitting.run(lambda state: progress(state.step, f"distance / noise {state.discrepancy:.2f}"))
    synthesizer = method.synthesizer(release, fitting)
    synthesizer.save(out / "model")
    # As many records as the noisy count says: the true number is private.
    table = synthesizer.sample(max(round(float(release.values["counts"].sum())), 1))
    _write_csv(table, out / "synthetic.csv")
    with ERR.status("4. Comparing with the real answers"):
        real, held_out = read_table(train, schema), read_table(test, schema)
        report = evaluate(table, held_out, schema, real)
        comparison_picture(table, real, schema, out / "comparison.png")
    (out / MARKER).write_text(json.dumps(report.to_json(), indent=2, default=str) + "\n", "utf-8")
    files = {
        "synthetic": out / "synthetic.csv",
        "certificate": out / "model" / "certificate.md",
        "picture": out / "comparison.png",
    }
    if as_json:
        print_json({**{name: str(path) for name, path in files.items()}, "evaluation": report.to_json()})
        return
    OUT.print(report.render())
    OUT.print(f"\nThe synthetic table:  {files['synthetic']}", soft_wrap=True)
    OUT.print(
        f"Its certificate:      {files['certificate']}   (check it: noisegate verify {out / 'model'})", soft_wrap=True
    )
    OUT.print(f"Real and synthetic:   {files['picture']}", soft_wrap=True)


def _make_room(out: Path) -> None:
    if out.exists() and not (out / MARKER).exists():
        raise OptionError(f"--out {out} exists and is not from an earlier demo; choose another folder.")
    try:
        if out.exists():
            shutil.rmtree(out)
        out.mkdir()
        (out / MARKER).write_text("{}\n", "utf-8")
    except OSError as error:
        raise OptionError(f"--out {out} cannot be written: {error.strerror}.") from None


def _write_survey(out: Path) -> tuple[Path, Path]:
    from statsmodels.datasets import fair

    survey = fair.load_pandas().data
    survey["affair"] = survey.pop("affairs") > 0
    # The file is sorted by the answer, so every fifth row is a fair test.
    kept_aside = survey.index % TEST_EVERY == 0
    paths = out / "survey.csv", out / "survey-kept-aside.csv"
    for path, rows in zip(paths, (survey[~kept_aside], survey[kept_aside]), strict=True):
        rows.to_csv(path, index=False, float_format="%g")
    return paths


def _write_csv(table: Any, path: Path) -> None:
    from noisegate.cli.writing import table_writer

    with table_writer(path) as write:
        write(table)
