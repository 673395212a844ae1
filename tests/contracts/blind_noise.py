"""Noise that knows nothing of the sums, two very different data sets of each kind, and all that leaves a run."""

import contextlib
import io
import itertools
import logging
import re
import secrets
import shutil
import uuid
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
from PIL import Image
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.gate.sessions import marginals
from noisegate.methods.registry import METHODS
from noisegate.privacy import noise
from noisegate.privacy.marginal_plan import marginal_name
from noisegate.schema import Schema
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate_evaluate.auditing.examples import IMAGES, example

COLUMNS = (
    continuous("dose", -1.0, 3.0, missing=True),
    categorical("ward", "abz", other="z", missing=True),
    boolean("ill"),
)
TABLE = Schema((*COLUMNS, integer("age", 0, 120, missing=True)), label="ill")
FEW = Schema(COLUMNS[1:])
FAMILIES = LinkedSchema(
    (
        LinkedTable(name="patients", key="id", schema=Schema(COLUMNS[:2])),
        LinkedTable(
            **{
                "name": "visits",
                "parent": "patients",
                "parent_key": "id",
                "most": 3,
                "orphans": "drop",
            },
            schema=Schema(COLUMNS[1:]),
        ),
    )
)


FIT = {"steps": 2, "batch": 8}
MIXTURE = {"cells": 3, "fit_options": {"steps": 2, "components": 3}}
MATCHED = {"hidden": (4,), "fit_options": FIT}
DRAWN = {"candidates": 10, "rounds": 2}
PICTURES = {"channels": (2, 2), "latent": 2, **MATCHED}
STEPS = {"steps": 3}
TINY = {
    **{
        "pairwise": MIXTURE | {"moments_share": 0.4},
        "linked": MIXTURE,
        "privbayes": {"cells": 3},
        "tab-pe": DRAWN,
        "pe": DRAWN | {"images": 10},
    },
    **{
        "dp-merf": {"frequencies": 10, **MATCHED},
        "dp-hp": {"order": 3, "product_order": 2, **MATCHED},
    },
    **{"dp-ntk": MATCHED, "mst": {"iterations": 2}, "aim": {"iterations": 2}},
    **{"joint": PICTURES, "mepf": PICTURES, "dp-mepf": PICTURES},
    **{"dp-mepf-trained": PICTURES | {"encoder_steps": 3}},
    **dict.fromkeys(
        ("dp-llm", "dp-sgd", "psg", "dp-dre", "dp-gan", "dp-cgan", "dp-sinkhorn"), STEPS
    ),
    **dict.fromkeys(
        ("datalens", "pate-gan", "g-pate", "gs-wgan", "dp-gan-mi", "dpdm", "dp-feta"),
        STEPS,
    ),
    "dp-gan-ft": STEPS | {"discriminator_steps": 2},
}
"""Settings beside its `audit_settings`, of methods that would take long with these."""
MANY = 10_001
"""Records of the second data set of some methods, for numbers that are told in tens of thousands."""
OF_MANY = ("pairwise", "dp-llm", "pate-gan")


class StoppedError(Exception):
    """What stops a run halfway."""


class Blind:
    """Numbers in place of noisy sums, which depend on how often and for how many there were asked for, and no more."""

    def __init__(self, stop_at=None):
        self.asked = 0
        self.stop_at = stop_at

    def normal(self, size, std):
        if self.asked == self.stop_at:
            raise StoppedError
        self.asked += 1
        return 40 * 2**22 / max(size, 1) ** 0.5 + std * np.random.default_rng(
            self.asked
        ).standard_normal(size)

    def add_noise(self, sums, *, noise_std, sampler):
        return (
            np.rint(self.normal(sums.size, noise_std))
            .astype(np.int64)
            .reshape(sums.shape)
        )

    def marginals(self, plan, frame, name):
        tables = [
            marginal_name(name, index, [index]) for index in range(len(plan.sizes))
        ]
        return (
            {
                columns: self.normal(size, 9.0)[:, None]
                for columns, size in zip(tables, plan.sizes, strict=True)
            },
            dict.fromkeys(tables, 9.0),
        )


def use(monkeypatch, blind):
    nothing = np.zeros(0, dtype=np.int64)
    monkeypatch.setattr(noise, "add_noise", blind.add_noise)
    monkeypatch.setattr(
        noise, "noisy_counts_above", lambda counts, **_: (nothing, nothing)
    )
    monkeypatch.setattr(
        marginals, "_build_measurement", lambda request, distance: request
    )
    monkeypatch.setattr(marginals, "_run_measurement", blind.marginals)
    monkeypatch.setattr(
        "noisegate.progress.EVERY", 0.0
    )  # every line of the log, however long the work takes
    monkeypatch.setattr("noisegate.gate.unbooked._RUNS", [])
    # What is drawn in secret, such as the name of a folder, does not depend on how much was drawn before.
    monkeypatch.setattr(
        secrets, "token_bytes", lambda count=32: np.random.default_rng(7).bytes(count)
    )
    # Runs and reservations are named by random numbers, which know nothing of the records.
    numbers = itertools.count(1)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers)))


def texts(random, count, choice):
    return pa.array(
        [choice[index] for index in random.integers(0, len(choice), count)], pa.string()
    )


def table(second, count):
    """The second has missing cells, values out of bounds, a rare class and other values; the first none of these."""
    random = np.random.default_rng(second)
    low, high = (-9, 300) if second else (0, 3)
    return pa.table(
        {
            "dose": pa.array(
                random.uniform(low, high, count),
                mask=random.random(count) < 0.2 * second,
            ),
            "ward": texts(
                random, count, ("a", "q", "", None, "ZZ9") if second else ("a", "b")
            ),
            "ill": pa.array(
                random.random(count) < 0.5 if not second else np.arange(count) == 1
            ),
            "age": pa.array(
                random.integers(low, high, count),
                mask=random.random(count) < 0.2 * second,
            ),
        }
    )


def pictures(second, place):
    """A folder of images, of which the second has some that cannot be read, and but one of a class."""
    random = np.random.default_rng(second)
    for number in range(23 if second else 10):
        folder = (
            place / IMAGES.layout.coded[0].levels[number == 1 if second else number % 2]
        )
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(random.integers(0, 256, (8, 8), dtype=np.uint8))
        image.resize((8, 9) if second and number == 5 else (8, 8)).save(
            folder / f"{number}.png"
        )
    if second:
        (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nxx")
    return place


def families(second):
    """Two tables, of which the second has other numbers of children, too many for some, and orphans."""
    patients = table(second, 50 if second else 20).select(["dose", "ward"])
    visits = table(second, 90 if second else 30).select(["ward", "ill"])
    of = (
        np.random.default_rng(second).integers(0, 9 if second else 20, len(visits))
        + 45 * second
    )
    keys = pa.array([f"{index}" for index in range(len(patients))])
    return {
        "patients": patients.append_column("id", keys),
        "visits": visits.append_column("id", pa.array([f"{index}" for index in of])),
    }


def of_method(name, folder, images):
    """Returns both data sets, the schema, the settings and further options of a method."""
    settings = TINY.get(name, {})
    if name == "linked":
        return [families(0), families(1)], FAMILIES, settings, {}
    of_images = METHODS[name].audit_on == "images"
    schema = IMAGES if of_images else TABLE
    made, *_ = example(name, schema=None, settings={}, folder=folder)
    paths = {
        key: getattr(made, key)
        for key in ("public", "decoder")
        if isinstance(getattr(made, key, None), str)
    }
    if name == "dp-dre":
        pa.csv.write_csv(table(0, 30), folder / "public.csv")
        paths["public"] = str(folder / "public.csv")
    settings = {**METHODS[name].audit_settings, **paths, **settings}
    options = {"records": 1000} if {"steps", "encoder_steps"} & set(settings) else {}
    if of_images:
        return images, schema, settings, {"on_error": "skip", **options}
    if name in ("aim", "mst"):  # of few columns: each is compiled
        schema = FEW
    data = [table(0, 30), table(1, MANY if name in OF_MANY else 70)]
    return (
        [data_set.select(schema.names) for data_set in data],
        schema,
        settings,
        options,
    )


def _timeless(text):
    """Returns a text without the time that something took, which lines of the log tell again and again."""
    return re.sub(
        r"(?m)^(.*: T s so far\n)+",
        r"\1",
        re.sub(r"\b[0-9.]+ s\b|\b\d+:\d\d:\d\d(?= left)", "T s", text),
    )


def _dateless(path):
    """Returns what is in a file; of the log of a run, without the time at the start of each line."""
    content = path.read_bytes()
    return re.sub(rb"(?m)^\S+ ", b"", content) if path.suffix == ".log" else content


@contextlib.contextmanager
def watched(seen, folder):
    """Writes down all that a block prints, logs, warns of and leaves in a folder, and the error that ends it."""
    printed = io.StringIO()
    logged = io.StringIO()
    log = logging.getLogger("noisegate")
    handler = logging.StreamHandler(logged)
    level = log.level
    error = None
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            try:
                yield
            except (Exception, SystemExit) as stopped:
                error = stopped
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    texts = {
        "printed": printed.getvalue(),
        "logged": logged.getvalue(),
        "error": repr(error),
    }
    texts |= {
        "notes": "\n".join(getattr(error, "__notes__", ())),
        "warned": "\n".join(str(warning) for warning in warned),
    }
    seen |= {name: _timeless(text).encode() for name, text in texts.items()}
    seen |= {
        str(path.relative_to(folder)): _dateless(path)
        for path in folder.rglob("*")
        if path.is_file()
    }


def left(monkeypatch, folder, work, blind=None):
    """Returns all that leaves `work`, which writes into a folder of the same name always."""
    use(monkeypatch, blind or Blind())
    seen = {}
    with watched(seen, folder):
        folder.mkdir(exist_ok=True)
        seen["sample"] = str(work(folder)).encode()
    shutil.rmtree(folder)
    return seen


def assert_alike(one, other):
    different = [
        name for name in sorted(one | other) if one.get(name) != other.get(name)
    ]
    shown = [
        (name, one.get(name, b"")[:300], other.get(name, b"")[:300])
        for name in different
    ]
    assert not different, f"of two data sets different files or texts left: {shown}"
