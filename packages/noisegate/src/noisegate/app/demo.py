"""`noisegate demo`: from a private file to a synthetic copy, with nobody's own data.

The records are a real sensitive survey that ships inside statsmodels, or digits that
noisegate-images draws. What it does for the survey::

    survey.csv ──► gate ──► release ──► model/ ──► synthetic.csv
                                           │
    survey-kept-aside.csv ─────────────────┴─────► public.html, private.html, demo.json

The demo of images has the same steps and tells of them by the same functions:
`fit_with_messages`, `released_count`, `write_pages`.
"""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import noisegate
from noisegate.app.cli.console import ERR, OUT, print_json, say, show_progress
from noisegate.app.cli.options import Json
from noisegate.errors import OptionError, require
from noisegate.progress import spinner
from noisegate.registry import extension

if TYPE_CHECKING:
    from collections.abc import Callable

    from noisegate.gate.gate import Gate
    from noisegate.methods.method import Method
    from noisegate.models.synthesizer import Synthesizer

    FillFolder = Callable[[Path, float], tuple[dict[str, Any], Any]]
    """Fills an empty folder at some ε; returns figures as JSON, and as console text."""

FIGURES = "demo.json"
MODEL = "model"
_SCHEMA = "schema.toml"
_SURVEY = "survey.csv"
_TEST_SURVEY = "survey-kept-aside.csv"
_SYNTHETIC = "synthetic.csv"
_PAGES = {"public.html", "private.html"}

# Everything that a demo makes: a folder that holds more is not replaced.
_FILES = {FIGURES, _SCHEMA, MODEL, _SYNTHETIC, _SURVEY, _TEST_SURVEY, *_PAGES}
_FILES_OF_IMAGES = {
    FIGURES,
    "images.toml",
    MODEL,
    "drawn.parquet",
    "drawn.png",
    "aside.parquet",
    "aside.png",
    "synthetic.parquet",
    "synthetic.png",
    *_PAGES,
}

_TEST_EVERY = 5
"""One answer in so many is held out; the help of the command says so too."""


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

    The survey ships inside statsmodels; nothing is downloaded. One answer in five is
    held out for evaluation. --images does the same with drawn digits.
    """
    from noisegate.models.folder import write_folder
    from noisegate.privacy.plan import Budget

    # Raises where ε is out of range, before an earlier demo is removed.
    Budget(epsilon=epsilon)
    fill: FillFolder
    if images:
        require("torch", "the demo")
        folder = out or Path("noisegate-demo-images")
        _remove_earlier(folder, _FILES_OF_IMAGES)
        fill = extension("noisegate.demos", "images", "a demo of images")
    else:
        require("statsmodels", "the demo")
        folder = out or Path("noisegate-demo")
        _remove_earlier(folder, _FILES)
        fill = _copy_survey

    # `write_folder` fills a hidden folder, which gets its name when it is complete. Its
    # callback returns nothing, so what is printed in the end is collected here.
    figures: dict[str, Any] = {}
    texts: list[Any] = []

    def fill_and_keep_figures(hidden_folder: Path) -> None:
        more_figures, text = fill(hidden_folder, epsilon)
        figures.update(more_figures)
        texts.append(text)

    write_folder(folder, fill_and_keep_figures)
    if as_json:
        files = _files_of_images() if images else _files_of_survey()
        paths = {name: str(folder / file) for name, file in files.items()}
        print_json(paths | figures)
        return
    for text in texts:
        OUT.print(text, soft_wrap=images, markup=not images)
    lines = _lines_of_images(folder) if images else _lines_of_survey(folder)
    for line in (*lines, *_lines_of_pages(folder)):
        OUT.print(line, soft_wrap=True, markup=False)


def _files_of_survey() -> dict[str, str]:
    """Returns what ``--json`` tells of a survey's folder: files by what they are."""
    return {
        "synthetic": _SYNTHETIC,
        "certificate": f"{MODEL}/certificate.md",
        "public": "public.html",
        "private": "private.html",
    }


def _files_of_images() -> dict[str, str]:
    """Returns the same for images."""
    return _files_of_survey() | {
        "synthetic": "synthetic.parquet",
        "picture": "synthetic.png",
        "real": "drawn.parquet",
    }


def _lines_of_survey(folder: Path) -> list[str]:
    """Returns where a reader finds the synthetic table and its certificate."""
    return [
        f"\nThe synthetic table:  {folder / _SYNTHETIC}",
        f"Its certificate:      {folder / MODEL / 'certificate.md'}   "
        f"(check it: noisegate verify {folder / MODEL})",
    ]


def _lines_of_images(folder: Path) -> list[str]:
    """Returns where a reader finds the images, their certificate and the originals."""
    return [
        f"Synthetic images:  {folder / 'synthetic.png'}, and all of them in "
        f"{folder / 'synthetic.parquet'}",
        f"Their certificate: {folder / MODEL / 'certificate.md'}   "
        f"(check it: noisegate verify {folder / MODEL})",
        f"What was copied:   {folder / 'drawn.png'}, and all of it in "
        f"{folder / 'drawn.parquet'}",
    ]


def _lines_of_pages(folder: Path) -> list[str]:
    """Returns where a reader finds both pages, and which may be published."""
    return [
        f"What it promises:     {folder / 'public.html'}   "
        "(a page that may be published with it)",
        f"Real and synthetic:   {folder / 'private.html'}   "
        "(a page of real answers, which may not)",
    ]


def _copy_survey(folder: Path, epsilon: float) -> tuple[dict[str, Any], Any]:
    """Fills an empty folder with the survey, its model, a copy and both pages.

    It says each step on standard error. The seed of the copy is fixed, and the noise is
    not: two demos differ.

    Returns:
        The figures of the private page, as JSON and as text for the console.
    """
    from noisegate.gate.gate import Gate
    from noisegate.methods.pairwise import Pairwise
    from noisegate.models.output.sample_file import table_writer
    from noisegate.schema import Schema

    schema_source = resources.files("noisegate.app").joinpath("demo_schema.toml")
    schema_path = folder / _SCHEMA
    schema_path.write_text(schema_source.read_text("utf-8"), "utf-8")
    schema = Schema.from_toml(schema_path)
    train, test = write_survey(folder)
    say(
        "1. A survey on marriage and affairs, and a schema that says what is publicly "
        "known about its columns."
    )
    gate = Gate(train, schema=schema, epsilon=epsilon, unit="respondent")
    synthesizer = fit_with_messages(
        Pairwise(), gate, records="records", sums="counts", model="model"
    )
    synthesizer.save(folder / MODEL)
    copy = synthesizer.sample(released_count(synthesizer), seed=0)
    with table_writer(folder / _SYNTHETIC, schema) as write:
        write(copy)
    evaluation = write_pages(folder, synthesizer, test, train)
    say("4. Compared with the real answers.")
    figures = evaluation.to_json()
    (folder / FIGURES).write_text(
        json.dumps(figures, indent=2, default=str) + "\n", "utf-8"
    )
    return {"evaluation": figures}, evaluation.render()


def write_pages(
    folder: Path, synthesizer: Synthesizer, test: Path, train: Path, **options: Any
) -> Any:
    """Writes the public and the private page of a model.

    Args:
        folder: Where they are written.
        synthesizer: The model.
        test: Records that were held out.
        train: Records that the model was fitted to.
        options: Further options of `noisegate.report`.

    Returns:
        The evaluation on the private page, with `to_json` and `render`.
    """
    with ERR.status("Comparing with the real records", spinner=spinner(ERR)):
        report = noisegate.report(
            synthesizer, out=folder, test=test, train=train, **options
        )
    assert report.evaluation is not None
    return report.evaluation


def fit_with_messages(
    method: Method, gate: Gate, *, records: str, sums: str, model: str
) -> Synthesizer:
    """Fits a model to the records behind a gate, and says what happens to them.

    The records are read once, for the release, which spends the whole ε of the gate.
    Fitting sees the release alone. The second message stands between the two, as the
    point of the demo: it is true from there on. Steps 1, 4 and 5 are said by the
    callers.

    Example, of `records="records", sums="counts", model="model"`, on standard error::

        2. The gate: 5,120 noisy counts left it, epsilon = 1. The records are not used
           again.
        3. Fitting a model to the counts            (a progress bar, which is erased)
        3. A model, fitted to the counts in 300 steps.

    Nothing is written, and a second call with this gate is refused by it.

    Args:
        method: Releases and fits.
        gate: Has the records.
        records: What messages call the records, in the plural.
        sums: What messages call the numbers that are released, in the plural.
        model: What messages call what is fitted.

    Returns:
        The model, which is in memory only.
    """
    release = method.query(gate)
    # Of all queries together; each noisy number counts once.
    value_count = sum(values.size for values in release.values.values())
    say(
        f"2. The gate: {value_count:,} noisy {sums} left it, epsilon = "
        f"{release.certificate.epsilon:g}. The {records} are not used again."
    )
    fitting = method.fitting(release)
    with show_progress(
        f"3. Fitting a {model} to the {sums}", fitting.steps
    ) as progress:
        fitting.run(lambda state: progress(state.step, state.closeness))
    say(f"3. A {model}, fitted to the {sums} in {fitting.step} steps.")
    synthesizer: Synthesizer = method.synthesizer(release, fitting)
    return synthesizer


def released_count(synthesizer: Synthesizer) -> int:
    """Returns the number of records by the noisy counts, at least 1.

    A copy has as many, since the true number is private. Noise may bring the sum below
    1, and a copy of no record could not be compared. Example: 6365.7 is 6366, and -3.2
    is 1.
    """
    noisy_counts = synthesizer.release.values["counts"]
    return max(round(float(noisy_counts.sum())), 1)


def _remove_earlier(folder: Path, demo_files: set[str]) -> None:
    """Removes the folder of an earlier demo.

    Args:
        folder: May be missing.
        demo_files: Everything that a demo writes.

    Raises:
        OptionError: if the folder holds anything else, or is no demo's, by the names of
            its files; nothing is removed then. Also if it cannot be removed, and a part
            of it may be gone.
    """
    if not folder.exists():
        return
    # A user's folder that happens to hold a `model` alone is no demo: the figures must
    # be there too.
    is_demo = False
    if folder.is_dir():
        names = {entry.name for entry in folder.iterdir()}
        is_demo = FIGURES in names and names <= demo_files
    if not is_demo:
        raise OptionError(
            f"--out {folder} exists and holds more than an earlier demo; choose "
            "another folder."
        )
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise OptionError(
            f"--out {folder} cannot be replaced: {error.strerror}; choose another "
            "folder."
        ) from None


def write_survey(folder: Path) -> tuple[Path, Path]:
    """Writes the survey as two CSV files: answers to fit a model to, and to test it on.

    Returns:
        The path of each, in this order.
    """
    from statsmodels.datasets import fair

    survey = fair.load_pandas().data
    survey["affair"] = survey.pop("affairs") > 0
    # The file is sorted by the answer, so every fifth row is a fair test.
    is_kept_aside = survey.index % _TEST_EVERY == 0
    train_path = folder / _SURVEY
    test_path = folder / _TEST_SURVEY
    survey[~is_kept_aside].to_csv(train_path, index=False, float_format="%g")
    survey[is_kept_aside].to_csv(test_path, index=False, float_format="%g")
    return train_path, test_path
