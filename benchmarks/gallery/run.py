"""Makes public pages of tables that statsmodels and scikit-learn ship, and pictures of them: docs/gallery.md.

`python benchmarks/gallery/run.py --out docs/gallery`. It needs Chromium on PATH.
Each page differs from run to run, by its noise.
"""

from __future__ import annotations

import argparse
import io
import shutil
import warnings
from pathlib import Path

import pandas as pd
from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_breast_cancer
from statsmodels.datasets import fair, randhie

import noisegate
from noisegate.errors import FitWarning

# Pixels of a picture, and its colours: enough for text and curves.
WIDTH, HEIGHT, COLOURS = 860, 1180, 64


def survey() -> pd.DataFrame:
    """Returns 6,366 answers on marriage and affairs (Redbook, 1974)."""
    answers = fair.load_pandas().data
    answers["affair"] = answers.pop("affairs") > 0
    return answers


def doctors() -> pd.DataFrame:
    """Returns 20,190 years of people in the RAND Health Insurance Experiment."""
    years = randhie.load_pandas().data.drop(columns=["lncoins", "fmde"])
    return years.assign(physlm=years["physlm"] >= 0.5)


def tumours() -> pd.DataFrame:
    """Returns 569 tumours with 30 measures of each (Wisconsin)."""
    measured = load_breast_cancer(as_frame=True)
    return measured.data.assign(benign=measured.target == 1)


SHOWN = {
    "survey": (survey, "affair", 2.0),
    "survey-little": (survey, "affair", 0.1),
    "doctors": (doctors, "physlm", 3.0),
    "tumours": (tumours, "benign", 1.0),
}


def page(name: str, folder: Path) -> None:
    """Writes NAME.html into the folder."""
    load, label, epsilon = SHOWN[name]
    records = load()
    schema = noisegate.draft_schema(records, label=label)  # the records are public
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FitWarning
        )  # that a copy is poor is what the page is to show
        model = noisegate.synthesize(records, schema=schema, epsilon=epsilon)
    made = noisegate.report(model, out=folder / name)
    made.public.replace(folder / f"{name}.html")
    shutil.rmtree(folder / name)


def pictures(names: list[str], folder: Path) -> None:
    """Writes NAME.png, the top of each page as a browser shows it."""
    with sync_playwright() as play:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        shown = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light"
        )
        for name in names:
            shown.goto((folder / f"{name}.html").absolute().as_uri())
            picture = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
            picture.quantize(COLOURS).save(folder / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/gallery"))
    parser.add_argument("--only", nargs="*", default=list(SHOWN))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for one in chosen.only:
        page(one, chosen.out)
    pictures(chosen.only, chosen.out)
