"""Every method once at ten thousand records, and every model that earlier versions left, by the command line alone."""

import shlex
import shutil

import numpy as np
import pytest
from tests.golden.cases import FITS, options
from tests.golden.models import MODELS
from tests.golden.names import FILES
from tests.golden.records import LABELS, SHAPES, mixed_row
from tests.journeys.conftest import RECORDS, Person

from noisegate.methods.registry import METHODS

LATER = {"dp-sinkhorn": ("dp-sinkhorn", "mixed", {"latent": 4, "hidden": [8], "steps": 2, "rate": 0.01})}
CLASSIFIERS = ("dp-llm", "dp-sgd")
SMALLEST = {name: fit for name, fit in {**FITS, **LATER}.items() if fit[1] in ("mixed", "plain", "grey")}
CASES = {fit[0]: (fit[1], fit[2]) for name, fit in reversed(SMALLEST.items())}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A person with ten thousand records of each schema of the golden files."""
    folder, home = tmp_path_factory.mktemp("shelf"), tmp_path_factory.mktemp("home")
    for file in FILES.iterdir():
        shutil.copy(file, folder)
    draw = np.random.default_rng(0)
    rows = [mixed_row(draw) for _ in range(1000)]
    for name, few in (("mixed", [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]),):
        times = RECORDS // len(few[1:]) + 1
        (folder / f"{name}.csv").write_text("\n".join([few[0], *(few[1:] * times)[:RECORDS]]) + "\n")
    few = (FILES / "plain.csv").read_text().splitlines()
    (folder / "plain.csv").write_text("\n".join([few[0], *(few[1:] * RECORDS)[:RECORDS]]) + "\n")
    labels = np.array(LABELS["grey"])[draw.integers(0, 2, RECORDS)]
    np.savez(
        folder / "grey.npz", images=draw.integers(0, 256, (RECORDS, *SHAPES["grey"]), dtype=np.uint8), labels=labels
    )
    return Person(home=home, folder=folder)


def test_every_method_has_a_case():
    assert set(CASES) | {"linked"} == set(METHODS) - {"mepf"}, "linked tables have a journey of their own"


def test_every_method(shelf):
    lines = []
    for method, (schema, settings) in CASES.items():
        data = f"{schema}.npz" if schema == "grey" else f"{schema}.csv"
        asked = ["--schema", f"{schema}.toml", "--method", method, "--epsilon", "4", "--records", str(RECORDS)]
        ledger = ["--dataset", "all", "--ledger", "ledger.db"]
        fit = ["fit", data, *asked, *options(settings), *ledger, "--out", method, "--device", "cpu"]
        lines += [shlex.join(["noisegate", *fit]), f"noisegate verify {method}"]
        if method in CLASSIFIERS:
            lines.append(f"noisegate predict {method} {data} --out {method}.csv")
        else:
            out = f"{method}.npz" if schema == "grey" else f"{method}.csv"
            lines.append(f"noisegate sample {method} -n 20 -o {out}")
    shelf.types_all(["noisegate ledger register all --epsilon 1000 --ledger ledger.db", *lines])
    assert set(CASES) < shelf.lies()
    [account] = shelf.types("noisegate ledger show --ledger ledger.db --json").json["accounts"]
    assert (account["committed"], account["reserved"]) == (len(CASES), 0)


def test_every_model_of_an_earlier_version(shelf):
    lines = []
    for name, (method, schema, _) in FITS.items():
        lines.append(f"noisegate verify {MODELS / name}")
        if method in CLASSIFIERS:
            lines.append(f"noisegate predict {MODELS / name} {FILES / schema}.{'npz' if schema == 'grey' else 'csv'}")
            lines[-1] += f" --out earlier-{name}.csv"
        else:
            out = f"earlier-{name}{'.csv' if schema in ('mixed', 'plain', 'discovered') else '.npz'}"
            lines.append(f"noisegate sample {MODELS / name} -n 5 -o {out}")
    shelf.types_all(lines)
    made = {name.partition(".")[0] for name in shelf.lies() if name.startswith("earlier-")}
    assert made == {f"earlier-{name}" for name in FITS}
