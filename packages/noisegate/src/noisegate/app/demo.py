"""`noisegate demo`: the whole way, on a real sensitive survey that ships inside statsmodels, or on drawn digits."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import noisegate
from noisegate.app.cli.console import ERR, OUT, print_json, say, steps
from noisegate.app.cli.options import Json
from noisegate.errors import OptionError, require
from noisegate.progress import spinner
from noisegate.registry import extension

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.methods.method import Method
    from noisegate.models.synthesizer import Synthesizer

FIGURES, MODEL, CERTIFICATE = "demo.json", "model", "model/certificate.md"
SURVEY, SURVEY_ASIDE = "survey.csv", "survey-kept-aside.csv"
PAGES = {"public.html", "private.html"}
MADE = {FIGURES, "schema.toml", MODEL, "synthetic.csv", SURVEY, SURVEY_ASIDE, *PAGES}
MADE_OF_IMAGES = {
    FIGURES,
    "images.toml",
    MODEL,
    "drawn.parquet",
    "drawn.png",
    "aside.parquet",
    "aside.png",
    *PAGES,
}
MADE_OF_IMAGES |= {"synthetic.parquet", "synthetic.png"}
TEST_EVERY = 5


def demo_command(
    out: Annotated[
        Path | None,
        Option(
            "--out",
            "-o",
            help="Folder to fill; noisegate-demo, or noisegate-demo-images, where it is not given.",
        ),
    ] = None,
    images: Annotated[
        bool,
        Option("--images", help="Drawn digits instead of a survey; a minute or two."),
    ] = False,
    epsilon: Annotated[float, Option(help="ε of the guarantee.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Make a private synthetic copy of a real sensitive survey: 6,366 answers on marriage and affairs (Redbook, 1974).

    The survey ships inside statsmodels; nothing is downloaded. One answer in five is kept aside to test on. With
    --images, the same with digits that are drawn on the spot.
    """
    from noisegate.models.folder import write_folder
    from noisegate.privacy.plan import Budget

    Budget(epsilon=epsilon)
    require("torch" if images else "statsmodels", "the demo")
    out = out or Path("noisegate-demo-images" if images else "noisegate-demo")
    _remove_earlier(out, MADE_OF_IMAGES if images else MADE)
    told: list[tuple[dict[str, Any], Any]] = []
    make = (
        extension("noisegate.demos", "images", "a demo of images")
        if images
        else _copy_survey
    )
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
        files |= {
            "synthetic": "synthetic.parquet",
            "picture": "synthetic.png",
            "real": "drawn.parquet",
        }
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
    from noisegate.gate.gate import Gate
    from noisegate.methods.pairwise import Pairwise
    from noisegate.models.output.sample_file import table_writer
    from noisegate.schema import Schema

    text = (
        resources.files("noisegate.app").joinpath("demo_schema.toml").read_text("utf-8")
    )
    (folder / "schema.toml").write_text(text, "utf-8")
    schema = Schema.from_toml(folder / "schema.toml")
    train, test = _write_survey(folder)
    say(
        "1. A survey on marriage and affairs, and a schema that says what is publicly known about its columns."
    )
    gate = Gate(train, schema=schema, epsilon=epsilon, unit="respondent")
    synthesizer = fitted(
        Pairwise(), gate, records="records", sums="counts", model="model"
    )
    synthesizer.save(folder / MODEL)
    table = synthesizer.sample(noisy_count(synthesizer), seed=0)
    with table_writer(folder / "synthetic.csv", schema) as write:
        write(table)
    evaluation = pages(folder, synthesizer, test, train)
    say("4. Compared with the real answers.")
    (folder / FIGURES).write_text(
        json.dumps(evaluation.to_json(), indent=2, default=str) + "\n", "utf-8"
    )
    return {"evaluation": evaluation.to_json()}, evaluation.render()


def pages(
    folder: Path, synthesizer: Synthesizer, test: Path, train: Path, **options: Any
) -> Any:
    """Makes both pages; returns the figures of the private one."""
    with ERR.status("Comparing with the real records", spinner=spinner(ERR)):
        made = noisegate.report(
            synthesizer, out=folder, test=test, train=train, **options
        )
    assert made.evaluation is not None
    return made.evaluation


def fitted(
    method: Method, gate: Gate, *, records: str, sums: str, model: str
) -> Synthesizer:
    """Returns the synthesizer of the records behind a gate, and says on the way what happens to them."""
    release = method.query(gate)
    numbers = sum(values.size for values in release.values.values())
    epsilon = release.certificate.epsilon
    say(
        f"2. The gate: {numbers:,} noisy {sums} left it, epsilon = {epsilon:g}. The {records} are not used again."
    )
    fitting = method.fitting(release)
    with steps(f"3. Fitting a {model} to the {sums}", fitting.steps) as progress:
        fitting.run(lambda state: progress(state.step, state.closeness))
    say(f"3. A {model}, fitted to the {sums} in {fitting.step} steps.")
    return method.synthesizer(release, fitting)


def noisy_count(synthesizer: Synthesizer) -> int:
    """Returns as many records as the noisy count says: the true number is private."""
    return max(round(float(synthesizer.release.values["counts"].sum())), 1)


def _remove_earlier(out: Path, made: set[str]) -> None:
    if not out.exists():
        return
    found = {entry.name for entry in out.iterdir()} if out.is_dir() else {""}
    if FIGURES not in found or not found <= made:
        raise OptionError(
            f"--out {out} exists and holds more than an earlier demo; choose another folder."
        )
    try:
        shutil.rmtree(out)
    except OSError as error:
        raise OptionError(
            f"--out {out} cannot be replaced: {error.strerror}; choose another folder."
        ) from None


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
