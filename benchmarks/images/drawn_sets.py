"""Drawn sets of images, any number: public images, unlike handwritten digits, to choose settings of image methods on.

`glyphs`: ten classes of light strokes on dark, each the union of six signs that have nothing in common. A sign is one
to three smoothed random polylines; a record is one of them moved, bent, thickened or thinned.
`shapes`: ten classes of grey pictures: a disc, a ring, a square, a triangle, a cross, two stars, stripes, checks, and
cloud, of any size, place, turn and contrast on a ground of any brightness that has a slope.

Everything follows from the seed; the signs of `glyphs` are always the same.

    python benchmarks/images/drawn_sets.py --set glyphs --count 200 --png glyphs.png
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

SIDE, CLASSES, SIGNS = 28, 10, 6
_POINTS, _SIGNS_SEED = 120, 2718
_BLOCK = 250

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Drawer = Callable[[Labels, np.random.Generator], Floats]


def drawn(name: str, count: int, *, seed: int = 0) -> tuple[Images, Labels]:
    """Returns `count` images of the set called `name`, (count, 28, 28) uint8, and their classes, drawn uniformly."""
    random = np.random.Generator(np.random.Philox(seed))
    labels = random.integers(0, CLASSES, count)
    images = np.empty((count, SIDE, SIDE), dtype=np.uint8)
    for start in range(0, count, _BLOCK):
        part = slice(start, start + _BLOCK)
        images[part] = np.rint(SETS[name](labels[part], random).clip(0, 1) * 255)
    return images, labels


def glyphs(labels: Labels, random: np.random.Generator) -> Floats:
    """Returns signs, (count, 28, 28), ink at 1."""
    count = len(labels)
    points = _signs()
    which = labels * SIGNS + random.integers(0, SIGNS, count)
    moved = points[which] @ _affine(count, random) + _bend(points[which], random)
    middle = (moved.max(axis=1, keepdims=True) + moved.min(axis=1, keepdims=True)) / 2
    size = np.ptp(moved, axis=1).max(axis=1)[:, None, None]
    moved = (moved - middle) / size * random.uniform(
        17, 21, (count, 1, 1)
    ) + random.normal(0, 0.6, (count, 1, 2))
    distance = _distance(moved)
    width, soft = (
        random.uniform(0.7, 1.8, (count, 1)),
        random.uniform(0.8, 1.6, (count, 1)),
    )
    return np.asarray(
        ((width - distance) / soft + 0.5).clip(0, 1).reshape(count, SIDE, SIDE)
    )


@cache
def _signs() -> Floats:
    """Returns points along each sign, (signs, points, 2)."""
    random = np.random.Generator(np.random.Philox(_SIGNS_SEED))
    points = np.empty((CLASSES * SIGNS, _POINTS, 2))
    for sign in points:
        strokes = int(random.integers(1, 4))
        for part in np.split(sign, strokes):
            part[:] = _stroke(random, len(part))
    return points


def _stroke(random: np.random.Generator, count: int) -> Floats:
    """Returns `count` points along a random polyline whose corners were cut twice (Chaikin 1974)."""
    corners = random.uniform(-1, 1, (int(random.integers(2, 6)), 2))
    if len(corners) > 3 and random.random() < 0.3:
        corners[-1] = corners[0]
    for _ in range(2 if random.random() < 0.7 else 0):
        cut = np.stack(
            [
                0.75 * corners[:-1] + 0.25 * corners[1:],
                0.25 * corners[:-1] + 0.75 * corners[1:],
            ],
            axis=1,
        )
        corners = np.concatenate([corners[:1], cut.reshape(-1, 2), corners[-1:]])
    way = np.concatenate(
        [[0], np.linalg.norm(np.diff(corners, axis=0), axis=1).cumsum()]
    )
    places = np.linspace(0, way[-1], count)
    return np.stack(
        [np.interp(places, way, corners[:, axis]) for axis in range(2)], axis=1
    )


def _affine(count: int, random: np.random.Generator) -> Floats:
    """Returns matrices near the unit matrix, (count, 2, 2): turned, sheared and of another ratio of sides."""
    angle, shear, ratio = (
        random.normal(0, 0.12, count),
        random.normal(0, 0.18, count),
        random.normal(0, 0.13, count),
    )
    turn = np.stack(
        [np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)], axis=1
    ).reshape(-1, 2, 2)
    slant = np.stack(
        [np.exp(ratio), np.zeros(count), shear, np.exp(-ratio)], axis=1
    ).reshape(-1, 2, 2)
    return np.asarray(turn @ slant)


def _bend(points: Floats, random: np.random.Generator) -> Floats:
    """Returns smooth random displacements of points in [-1, 1]², of the same shape: three plane waves a record."""
    count = len(points)
    waves = random.normal(0, 1.6, (count, 2, 3))
    phases, sizes = (
        random.uniform(0, 2 * math.pi, (count, 1, 3)),
        random.normal(0, 0.11, (count, 3, 2)),
    )
    return np.asarray(np.sin(points @ waves + phases) @ sizes)


def _distance(points: Floats) -> Floats:
    """Returns each pixel's distance to the nearest point, (count, pixels); points are less than two pixels apart."""
    axis = np.arange(SIDE) - (SIDE - 1) / 2
    pixels = (
        np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
        .reshape(-1, 2)
        .astype(np.float32)
    )
    near = points.astype(np.float32)
    squares = (near * near).sum(axis=2)[:, None] - 2 * pixels @ near.transpose(0, 2, 1)
    nearest = squares.min(axis=2) + (pixels * pixels).sum(axis=1)
    return np.asarray(np.sqrt(nearest.clip(0)), dtype=np.float64)


def shapes(labels: Labels, random: np.random.Generator) -> Floats:
    """Returns shapes and textures, (count, 28, 28)."""
    count = len(labels)
    axis = (np.arange(SIDE) - (SIDE - 1) / 2) / (SIDE / 2)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(1, -1, 2)
    slope = (grid * random.normal(0, 0.15, (count, 1, 2))).sum(axis=2)
    turned = (grid - random.normal(0, 0.12, (count, 1, 2))) @ _affine(count, random)
    depth = np.empty((count, SIDE * SIDE))
    for place, label in enumerate(labels):
        depth[place] = _FORMS[label](turned[place], random)
    ink = (depth / random.uniform(0.04, 0.12, (count, 1)) + 0.5).clip(0, 1)
    ground, contrast = (
        random.uniform(0.05, 0.45, (count, 1)),
        random.uniform(0.25, 0.55, (count, 1)),
    )
    grain = random.normal(0, 0.02, (count, SIDE * SIDE))
    return np.asarray(
        (ground + slope + contrast * ink + grain).clip(0, 1).reshape(count, SIDE, SIDE)
    )


def _disc(at: Floats, random: np.random.Generator) -> Floats:
    return np.asarray(random.uniform(0.45, 0.8) - np.linalg.norm(at, axis=1))


def _ring(at: Floats, random: np.random.Generator) -> Floats:
    return np.asarray(
        random.uniform(0.09, 0.18)
        - np.abs(np.linalg.norm(at, axis=1) - random.uniform(0.5, 0.75))
    )


def _polygon(at: Floats, random: np.random.Generator, corners: int) -> Floats:
    angles = (
        random.normal(0, 0.15)
        - math.pi / 2
        + 2 * math.pi * np.arange(corners) / corners
    )
    sides = np.stack([np.sin(angles), np.cos(angles)])
    return np.asarray(random.uniform(0.3, 0.55) - (at @ sides).max(axis=1))


def _cross(at: Floats, random: np.random.Generator) -> Floats:
    width, length = random.uniform(0.1, 0.2), random.uniform(0.6, 0.85)
    far, near = np.abs(at).max(axis=1), np.abs(at).min(axis=1)
    return np.asarray(np.minimum(width - near, length - far))


def _star(at: Floats, random: np.random.Generator, rays: int) -> Floats:
    angle = np.arctan2(at[:, 0], at[:, 1]) + random.normal(0, 0.2)
    edge = random.uniform(0.45, 0.65) * (1 + 0.45 * np.cos(rays * angle))
    return np.asarray(edge - np.linalg.norm(at, axis=1))


def _wave(at: Floats, random: np.random.Generator, turn: float) -> Floats:
    angle, pitch = turn + random.normal(0, 0.25), random.uniform(5, 9)
    return np.asarray(
        np.sin(
            pitch * (at @ [math.sin(angle), math.cos(angle)])
            + random.uniform(0, 2 * math.pi)
        )
    )


def _stripes(at: Floats, random: np.random.Generator) -> Floats:
    return np.asarray(0.2 * _wave(at, random, 0.6))


def _checks(at: Floats, random: np.random.Generator) -> Floats:
    return np.asarray(0.2 * _wave(at, random, 0.0) * _wave(at, random, math.pi / 2))


def _cloud(at: Floats, random: np.random.Generator) -> Floats:
    return np.asarray(
        0.1 * sum(_wave(at, random, turn) for turn in random.uniform(0, math.pi, 5))
    )


_FORMS: tuple[Callable[[Floats, np.random.Generator], Floats], ...] = (
    _disc,
    _ring,
    lambda at, random: _polygon(at, random, 4),
    lambda at, random: _polygon(at, random, 3),
    _cross,
    lambda at, random: _star(at, random, 5),
    lambda at, random: _star(at, random, 3),
    _stripes,
    _checks,
    _cloud,
)

SETS: Mapping[str, Drawer] = {"glyphs": glyphs, "shapes": shapes}


def main() -> None:
    """Writes a sheet of a drawn set, the classes in order."""
    parser = argparse.ArgumentParser(description="Draw a sheet of a drawn set.")
    parser.add_argument("--set", choices=sorted(SETS), required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--png", type=Path, required=True)
    arguments = parser.parse_args()
    images, labels = drawn(arguments.set, arguments.count, seed=arguments.seed)
    across = 20
    images = np.pad(
        images[np.argsort(labels, kind="stable")],
        ((0, -len(images) % across), (0, 0), (0, 0)),
    )
    sheet = (
        images.reshape(-1, across, SIDE, SIDE)
        .transpose(0, 2, 1, 3)
        .reshape(-1, across * SIDE)
    )
    Image.fromarray(sheet).save(arguments.png)


if __name__ == "__main__":
    main()
