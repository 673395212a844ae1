"""How the records in `files` were made. They are stored, as random numbers may change with a version of NumPy."""

from __future__ import annotations

import csv
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 48
SHAPES = {"grey": (8, 8), "bare": (8, 8), "colour": (8, 8, 3), "odd": (6, 10)}
LABELS: dict[str, tuple[Any, ...]] = {"grey": ("across", "down"), "bare": (), "colour": (0, 1, 5), "odd": (0, 1)}


def write_records(folder: Path) -> None:
    """Writes private and public records of every schema, and a decoder with random weights."""
    from tests.shared.feature_space import write_decoder

    write_decoder(folder / "decoder.safetensors")
    draw = np.random.default_rng(20)
    _write_csv(folder / "mixed.csv", [mixed_row(draw) for _ in range(ROWS)])
    _write_csv(folder / "public.csv", [mixed_row(draw) for _ in range(ROWS)])
    plain = [_plain(draw) for _ in range(ROWS)]
    _write_csv(folder / "plain.csv", plain)
    _write_csv(folder / "units.csv", [{"patient": f"p{draw.integers(20)}", **row} for row in plain])
    for name in SHAPES:
        _write_images(folder / f"{name}.npz", name, draw)
    _write_images(folder / "public.npz", "grey", draw)


def mixed_row(draw: np.random.Generator) -> dict[str, Any]:
    """Returns a record of the schema of every kind of column."""

    def maybe(value: Any) -> Any:
        return "" if draw.random() < 0.15 else value

    day, moment = date(2020, 1, 1) + timedelta(int(draw.integers(700))), datetime(2020, 1, 1)
    second = timedelta(seconds=int(draw.integers(31_000_000)))
    return {
        "income": maybe(round(float(draw.uniform(0, 100)), 2)),
        "age": int(draw.integers(18, 91)),
        "day in": day,
        "day out": maybe(day + timedelta(int(draw.integers(150)))),
        "measured": (moment + second).isoformat(),
        "sent": maybe((moment + second / 2).replace(microsecond=0).isoformat() + "Z"),
        "stage": str(draw.choice(["I", "II", "III"])),
        "job": maybe(str(draw.choice(["nurse", "teacher", "pilot"]))),
        "ward": int(draw.choice([3, 7, 12])),
        "smoker": maybe(str(draw.choice(["true", "false"]))),
        "answer": str(draw.choice(["no", "yes"])),
    }


def _plain(draw: np.random.Generator) -> dict[str, Any]:
    return {
        "x": round(float(draw.uniform(-1, 3)), 3),
        "n": "" if draw.random() < 0.1 else int(draw.integers(0, 21)),
        "k": str(draw.choice(list("abcd"))),
        "flag": str(draw.choice(["true", "false"])),
    }


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _write_images(path: Path, name: str, draw: np.random.Generator) -> None:
    """Stripes in noise, whose direction is the label, if there is any."""
    shape, labels = SHAPES[name], np.array(LABELS[name] or (0, 1))
    places = draw.integers(len(labels), size=ROWS)
    images = draw.integers(0, 60, (ROWS, *shape))
    for image, place in zip(images, places, strict=True):
        (image if place == 0 else image.swapaxes(0, 1))[::2] += 190
    arrays = {"images": images.astype(np.uint8)} | ({"labels": labels[places]} if LABELS[name] else {})
    np.savez_compressed(path, **arrays)
