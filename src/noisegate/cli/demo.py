"""`noisegate demo`: the whole way, on a real sensitive survey that ships inside statsmodels, or on drawn digits."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisegate.cli.arguments import Json
from noisegate.cli.console import ERR, fit_aloud, say, show_files
from noisegate.cli.writing import table_writer
from noisegate.errors import OptionError, require

if TYPE_CHECKING:
    from noisegate.evaluation import Report

FIGURES, SCHEMA, MODEL, SYNTHETIC, PICTURE = "demo.json", "schema.toml", "model", "synthetic.csv", "comparison.png"
SURVEY = "survey.csv", "survey-kept-aside.csv"
MADE = {FIGURES, SCHEMA, MODEL, SYNTHETIC, PICTURE, *SURVEY}
TEST_EVERY = 5


def demo_command(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder to fill; noisegate-demo, or noisegate-demo-images, where it is not given."
        ),
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="Drawn digits instead of a survey; a minute or two.")
    ] = False,
    epsilon: Annotated[float, typer.Option("--epsilon", help="ε of the guarantee.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Make a private synthetic copy of a real sensitive survey: 6,366 answers on marriage and affairs (Redbook, 1974).

    The survey ships inside statsmodels; nothing is downloaded. One answer in five is kept aside to test on. With
    --images, the same with digits that are drawn on the spot.
    """
    from noisegate.cli import demo_images
    from noisegate.models.folder import write_folder
    from noisegate.privacy.plan import Budget

    Budget(epsilon=epsilon)
    for package in ("torch",) if images else ("torch", "statsmodels"):
        require(package, "the demo")
    if images:
        out, figures = out or Path("noisegate-demo-images"), {}
        _remove_earlier(out, demo_images.MADE)
        write_folder(out, lambda folder: figures.update(demo_images.make(folder, epsilon)))
        demo_images.tell(out, figures, as_json=as_json)
        return
    out = out or Path("noisegate-demo")
    _remove_earlier(out, MADE)
    reports: list[Report] = []
    write_folder(out, lambda folder: reports.append(_make(folder, epsilon)))
    _tell(out, reports[0], as_json=as_json)


def _tell(out: Path, report: Report, *, as_json: bool) -> None:
    files = {"synthetic": SYNTHETIC, "certificate": f"{MODEL}/certificate.md", "picture": PICTURE}
    lines = (
        f"\nThe synthetic table:  {out / SYNTHETIC}",
        f"Its certificate:      {out / MODEL / 'certificate.md'}   (check it: noisegate verify {out / MODEL})",
        f"Real and synthetic:   {out / PICTURE}",
    )
    show_files(out, files, {"evaluation": report.to_json()}, None if as_json else report.render(), lines)


def _make(folder: Path, epsilon: float) -> Report:
    """Fills the empty `folder`."""
    from noisegate.data.frames import read_table
    from noisegate.evaluation import evaluate
    from noisegate.gate.gate import Gate
    from noisegate.methods.pairwise import Pairwise
    from noisegate.report import comparison_picture
    from noisegate.schema import Schema

    text = resources.files("noisegate.cli").joinpath("demo_schema.toml").read_text("utf-8")
    (folder / SCHEMA).write_text(text, "utf-8")
    schema = Schema.from_toml(folder / SCHEMA)
    train, test = _write_survey(folder)
    say("1. A survey on marriage and affairs, and a schema that says what is publicly known about its columns.")
    gate = Gate(train, schema=schema, epsilon=epsilon, unit="respondent")
    synthesizer = fit_aloud(Pairwise(), gate, records="records", sums="counts", model="model")
    synthesizer.save(folder / MODEL)
    # As many records as the noisy count says: the true number is private.
    table = synthesizer.sample(max(round(float(synthesizer.release.values["counts"].sum())), 1), seed=0)
    with table_writer(folder / SYNTHETIC, schema) as write:
        write(table)
    with ERR.status("4. Comparing with the real answers"):
        real, held_out = read_table(train, schema), read_table(test, schema)
        report = evaluate(table, held_out, schema, real)
        comparison_picture(table, real, schema, folder / PICTURE)
    say("4. Compared with the real answers.")
    (folder / FIGURES).write_text(json.dumps(report.to_json(), indent=2, default=str) + "\n", "utf-8")
    return report


def _remove_earlier(out: Path, made: set[str]) -> None:
    """Removes an earlier demo; anything else in the way is left alone."""
    if not out.exists():
        return
    found = {entry.name for entry in out.iterdir()} if out.is_dir() else {""}
    if FIGURES not in found or not found <= made:
        raise OptionError(f"--out {out} exists and holds more than an earlier demo; choose another folder.")
    try:
        shutil.rmtree(out)
    except OSError as error:
        raise OptionError(f"--out {out} cannot be replaced: {error.strerror}; choose another folder.") from None


def _write_survey(folder: Path) -> tuple[Path, Path]:
    from statsmodels.datasets import fair

    survey = fair.load_pandas().data
    survey["affair"] = survey.pop("affairs") > 0
    # The file is sorted by the answer, so every fifth row is a fair test.
    kept_aside = survey.index % TEST_EVERY == 0
    train, test = (folder / name for name in SURVEY)
    for path, rows in ((train, survey[~kept_aside]), (test, survey[kept_aside])):
        rows.to_csv(path, index=False, float_format="%g")
    return train, test
