"""`noisegate demo`: the whole way, on a real sensitive survey that ships inside statsmodels, or on drawn digits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.cli.console import ERR, OUT, print_json, say, steps
from noisegate.cli.options import Json
from noisegate.errors import OptionError, require
from noisegate.models.output.table_file import table_writer
from noisegate.progress import spinner

if TYPE_CHECKING:
    from noisegate.evaluation.comparison import ImageReport, Report
    from noisegate.gate.gate import Gate
    from noisegate.methods.method import Method
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.schema import Schema

FIGURES, MODEL, CERTIFICATE = "demo.json", "model", "model/certificate.md"
SURVEY, SURVEY_ASIDE = "survey.csv", "survey-kept-aside.csv"
PAGES = {"public.html", "private.html"}
MADE = {FIGURES, "schema.toml", MODEL, "synthetic.csv", SURVEY, SURVEY_ASIDE, *PAGES}
MADE_OF_IMAGES = {FIGURES, "images.toml", MODEL, "drawn.parquet", "drawn.png", "aside.parquet", "aside.png", *PAGES}
MADE_OF_IMAGES |= {"synthetic.parquet", "synthetic.png"}
_OF_EARLIER = {"comparison.png"}
TEST_EVERY = 5

COUNT, ASIDE = 10_000, 2_000
SETTINGS: Mapping[str, Any] = {
    "pixels": 400,
    "orientations": 400,
    "wavelets": 400,
    "strokes": 0,
    "fit_options": {"steps": 1000, "batch": 100},
}
"""A sixth of the steps of `noisegate fit`, so that a demonstration takes a minute; strokes stay rougher for it."""
_CAPTION = """\
Look at synthetic.png beside drawn.png: each row is a digit, and every digit should be there.
Some images are spoilt: they come from {images:,} images and a short fit; `noisegate fit` takes six times as many steps.
The guarantee is epsilon = {epsilon:g}, delta = {delta:g}, for adding or removing one image. What was copied may be
shown here because it belongs to nobody; private images may not.
"""


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
    epsilon: Annotated[float, typer.Option(help="ε of the guarantee.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Make a private synthetic copy of a real sensitive survey: 6,366 answers on marriage and affairs (Redbook, 1974).

    The survey ships inside statsmodels; nothing is downloaded. One answer in five is kept aside to test on. With
    --images, the same with digits that are drawn on the spot.
    """
    from noisegate.models.folder import write_folder
    from noisegate.privacy.plan import Budget

    Budget(epsilon=epsilon)
    for package in ("torch",) if images else ("statsmodels",):
        require(package, "the demo")
    out = out or Path("noisegate-demo-images" if images else "noisegate-demo")
    _remove_earlier(out, MADE_OF_IMAGES if images else MADE)
    told: list[tuple[dict[str, Any], Any]] = []
    make = _copy_digits if images else _copy_survey
    write_folder(out, lambda folder: told.append(make(folder, epsilon)))
    figures, text = told[0]
    check = f"(check it: noisegate verify {out / MODEL})"
    files = {"synthetic": "synthetic.csv", "certificate": CERTIFICATE}
    files |= {"public": "public.html", "private": "private.html"}
    lines = [
        f"\nThe synthetic table:  {out / 'synthetic.csv'}",
        f"Its certificate:      {out / CERTIFICATE}   {check}",
    ]
    pages = [
        f"What it promises:     {out / 'public.html'}   (a page that may be published with it)",
        f"Real and synthetic:   {out / 'private.html'}   (a page of real answers, which may not)",
    ]
    if images:
        files |= {"synthetic": "synthetic.parquet", "picture": "synthetic.png", "real": "drawn.parquet"}
        lines = [
            f"Synthetic images:  {out / 'synthetic.png'}, and all of them in {out / 'synthetic.parquet'}",
            f"Their certificate: {out / CERTIFICATE}   {check}",
            f"What was copied:   {out / 'drawn.png'}, and all of it in {out / 'drawn.parquet'}",
        ]
    if as_json:
        print_json({name: str(out / file) for name, file in files.items()} | figures)
        return
    OUT.print(text, soft_wrap=images, markup=not images)
    for line in (*lines, *pages):
        OUT.print(line, soft_wrap=True, markup=False)


def _copy_survey(folder: Path, epsilon: float) -> tuple[dict[str, Any], Any]:
    """Fills the empty `folder`; returns the figures and what is told of them."""
    from noisegate.gate.gate import Gate
    from noisegate.methods.pairwise import Pairwise
    from noisegate.schema import Schema

    text = resources.files("noisegate.cli").joinpath("demo_schema.toml").read_text("utf-8")
    (folder / "schema.toml").write_text(text, "utf-8")
    schema = Schema.from_toml(folder / "schema.toml")
    train, test = _write_survey(folder)
    say("1. A survey on marriage and affairs, and a schema that says what is publicly known about its columns.")
    gate = Gate(train, schema=schema, epsilon=epsilon, unit="respondent")
    synthesizer = _fit(Pairwise(), gate, records="records", sums="counts", model="model")
    synthesizer.save(folder / MODEL)
    table = synthesizer.sample(_noisy_count(synthesizer), seed=0)
    with table_writer(folder / "synthetic.csv", schema) as write:
        write(table)
    evaluation = _pages(folder, synthesizer, test, train)
    say("4. Compared with the real answers.")
    (folder / FIGURES).write_text(json.dumps(evaluation.to_json(), indent=2, default=str) + "\n", "utf-8")
    return {"evaluation": evaluation.to_json()}, evaluation.render()


def _copy_digits(folder: Path, epsilon: float) -> tuple[dict[str, Any], Any]:
    """Fills the empty `folder`; returns the figures and what is told of them."""
    from noisegate.cli.digits import DIGITS, SIDE, drawn_digits
    from noisegate.gate.gate import Gate
    from noisegate.methods.joint import JointEmbedding
    from noisegate.schema import pixel_schema

    schema = pixel_schema(SIDE, SIDE, labels=range(DIGITS))
    schema.to_toml(folder / "images.toml")
    _write_images(folder, "drawn", schema, drawn_digits(COUNT), COUNT)
    say(f"1. {COUNT:,} digits of {SIDE} x {SIDE} pixels, drawn from fonts, stand for private images.")
    method = JointEmbedding(image=(SIDE, SIDE, 1), **SETTINGS)
    gate = Gate(folder / "drawn.parquet", schema=schema, epsilon=epsilon, unit="image")
    synthesizer = _fit(method, gate, records="images", sums="sums", model="generator")
    synthesizer.save(folder / MODEL)
    number, certificate = _noisy_count(synthesizer), synthesizer.certificate
    _write_images(folder, "synthetic", schema, synthesizer.images(number, seed=0), number)
    say(f"4. Drew {number:,} synthetic images.")
    _write_images(folder, "aside", schema, drawn_digits(ASIDE, seed=1), ASIDE)
    _pages(folder, synthesizer, folder / "aside.parquet", folder / "drawn.parquet", classifiers="logistic")
    say(f"5. Compared with {ASIDE:,} digits that were drawn anew.")
    figures = {"epsilon": certificate.epsilon, "delta": certificate.delta, "images": COUNT, "synthetic": number}
    (folder / FIGURES).write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return {"figures": figures}, _CAPTION.format(**figures)


def _pages(folder: Path, synthesizer: Synthesizer, test: Path, train: Path, **options: Any) -> Report | ImageReport:
    """Makes both pages; returns the figures of the private one."""
    from noisegate.pages import report

    with ERR.status("Comparing with the real records", spinner=spinner(ERR)):
        pages = report(synthesizer, out=folder, test=test, train=train, **options)
    assert pages.evaluation is not None
    return pages.evaluation


def _fit(method: Method, gate: Gate, *, records: str, sums: str, model: str) -> Synthesizer:
    """Returns the synthesizer of the records behind a gate, and says on the way what happens to them."""
    release = method.query(gate)
    numbers = sum(values.size for values in release.values.values())
    epsilon = release.certificate.epsilon
    say(f"2. The gate: {numbers:,} noisy {sums} left it, epsilon = {epsilon:g}. The {records} are not used again.")
    fitting = method.fitting(release)
    with steps(f"3. Fitting a {model} to the {sums}", fitting.steps) as progress:
        fitting.run(lambda state: progress(state.step, state.closeness))
    say(f"3. A {model}, fitted to the {sums} in {fitting.step} steps.")
    return method.synthesizer(release, fitting)


def _noisy_count(synthesizer: Synthesizer) -> int:
    """Returns as many records as the noisy count says: the true number is private."""
    return max(round(float(synthesizer.release.values["counts"].sum())), 1)


def _write_images(folder: Path, name: str, schema: Schema, batches: Any, number: int) -> None:
    """Writes images, and a picture of some of each class."""
    from noisegate.models.output.formats import image_writer
    from noisegate.models.output.grid import SampleGrid

    assert schema.images is not None
    shown = SampleGrid(form=schema.images, out=folder / f"{name}.png")
    with image_writer(folder / f"{name}.parquet", schema.images, number) as write:
        for batch in batches:
            write(batch)
            shown.add(batch)
    shown.write()


def _remove_earlier(out: Path, made: set[str]) -> None:
    """Removes an earlier demo; anything else in the way is left alone."""
    if not out.exists():
        return
    found = {entry.name for entry in out.iterdir()} if out.is_dir() else {""}
    if FIGURES not in found or not found <= made | _OF_EARLIER:
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
    train, test = folder / SURVEY, folder / SURVEY_ASIDE
    for path, rows in ((train, survey[~kept_aside]), (test, survey[kept_aside])):
        rows.to_csv(path, index=False, float_format="%g")
    return train, test
