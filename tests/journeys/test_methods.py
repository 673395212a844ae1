"""Every method once at ten thousand records, and every model that earlier versions left, by the command line alone."""

import shlex
import shutil

import numpy as np
import pytest
from tests.golden.cases import FITS, options
from tests.golden.models import MODELS
from tests.golden.names import FILES
from tests.journeys.conftest import RECORDS, Person

from noisegate.methods.registry import METHODS

LATER = {
    "dpdm": ("dpdm", "grey", FITS["dpdm-bare"][2]),
    "dp-sinkhorn": (
        "dp-sinkhorn",
        "plain",
        {"latent": 4, "hidden": [8], "steps": 2, "sampling_probability": 0.5},
    ),
    # Each table of columns is compiled.
    "mst": ("mst", "two", {"iterations": 2}),
    "aim": ("aim", "two", {"iterations": 2, "rounds": 1}),
}
TWO = """\
ignore = ["x", "n"]
columns.k = { kind = "categorical", levels = ["a", "b", "c", "d"] }
columns.flag = { kind = "boolean" }
"""
CLASSIFIERS = ("dp-llm", "dp-sgd")
SMALLEST = {
    name: fit
    for name, fit in {**FITS, **LATER}.items()
    if fit[1] in ("mixed", "plain", "grey", "two")
}
CASES = {
    method: (schema, settings)
    for method, schema, settings in reversed(SMALLEST.values())
}
RATES = {"sampling_probability": 0.005, "encoder_sampling_probability": 0.005}
"""Ten thousand records make larger samples than the forty-eight of the golden files."""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A person with ten thousand records of each schema of the golden files."""
    folder = tmp_path_factory.mktemp("shelf")
    home = tmp_path_factory.mktemp("home")
    for file in FILES.iterdir():
        shutil.copy(file, folder)
    (folder / "two.toml").write_text(TWO)
    for name, file in {"mixed": "mixed", "plain": "plain", "two": "plain"}.items():
        head, *few = (FILES / f"{file}.csv").read_text().splitlines()
        (folder / f"{name}.csv").write_text(
            "\n".join([head, *(few * RECORDS)[:RECORDS]]) + "\n"
        )
    with np.load(FILES / "grey.npz") as few:
        indices = np.arange(RECORDS) % len(few["labels"])
        np.savez(
            folder / "grey.npz",
            images=few["images"][indices],
            labels=few["labels"][indices],
        )
    return Person(home=home, folder=folder)


def test_every_method_has_a_case():
    assert set(CASES) | {"linked"} == set(METHODS) - {"mepf"}, (
        "linked tables have a journey of their own"
    )


# The contracts fit every method quickly, on few records and in Python.
@pytest.mark.slow
@pytest.mark.parametrize("images", [True, False])
def test_every_method(shelf, images):
    lines = []
    cases = {
        name: case for name, case in CASES.items() if (case[0] == "grey") == images
    }
    for method, (schema, settings) in cases.items():
        data = f"{schema}.npz" if schema == "grey" else f"{schema}.csv"
        command = [
            "--schema",
            f"{schema}.toml",
            "--method",
            method,
            "--epsilon",
            "4",
            "--records",
            str(RECORDS),
        ]
        ledger = [
            "--dataset",
            "tables" if method in ("aim", "mst") else schema,
            "--ledger",
            "ledger.db",
        ]
        small = {
            **settings,
            **{name: rate for name, rate in RATES.items() if name in settings},
        }
        fit = [
            "fit",
            data,
            *command,
            *options(small),
            *ledger,
            "--out",
            method,
            "--device",
            "cpu",
        ]
        lines += [shlex.join(["noisegate", *fit]), f"noisegate verify {method}"]
        if method in CLASSIFIERS:
            lines.append(f"noisegate predict {method} {data} --out {method}.csv")
        else:
            out = f"{method}.npz" if schema == "grey" else f"{method}.csv"
            lines.append(f"noisegate sample {method} -n 20 -o {out}")
    books = ["grey"] if images else ["mixed", "plain", "tables"]
    shelf.types_all(
        [
            *(
                f"noisegate ledger register {name} --epsilon 1000 --ledger ledger.db"
                for name in books
            ),
            *lines,
        ]
    )
    assert set(cases) < shelf.lies()
    accounts = shelf.types("noisegate ledger show --ledger ledger.db --json").json[
        "accounts"
    ]
    assert sum(
        account["committed"] for account in accounts if account["dataset"] in books
    ) == len(cases)


def test_every_model_of_an_earlier_version(shelf):
    lines = []
    for name, (method, schema, _) in FITS.items():
        lines.append(f"noisegate verify {MODELS / name}")
        if method in CLASSIFIERS:
            lines.append(
                f"noisegate predict {MODELS / name} {FILES / schema}.{'npz' if schema == 'grey' else 'csv'}"
            )
            lines[-1] += f" --out earlier-{name}.csv"
        else:
            out = f"earlier-{name}{'.csv' if schema in ('mixed', 'plain', 'discovered') else '.npz'}"
            lines.append(f"noisegate sample {MODELS / name} -n 5 -o {out}")
    shelf.types_all(lines)
    earlier = {
        name.partition(".")[0] for name in shelf.lies() if name.startswith("earlier-")
    }
    assert earlier == {f"earlier-{name}" for name in FITS}
