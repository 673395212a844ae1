"""Random signs drawn with light strokes on dark, any number: what a public network learns drawings from.

A sign is one to four Bézier curves, often joined. A drawing is a sign with its control points shaken, turned, sheared,
stretched and moved, and with a stroke of its own. Nothing comes from any picture; everything follows from the seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    Floats = npt.NDArray[np.float32]

SIDE = 28
_CURVES, _POINTS, _BLOCK = 4, 48, 20
_AWAY = 1e3  # where the points of curves lie that a sign does not have


def draw_signs(signs: int, drawings: int, *, seed: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Returns `drawings` of each of so many signs, (rows, 784) uint8 with ink at 255, and which sign each is, (rows,).

    Rows stand in an order such that each run of `signs` rows has every sign once.
    """
    random = np.random.Generator(np.random.Philox(seed))
    controls = np.stack([_sign(random) for _ in range(signs)])
    which = np.tile(np.arange(signs), drawings)
    images = np.empty((len(which), SIDE * SIDE), dtype=np.uint8)
    for start in range(0, len(which), _BLOCK):
        part = slice(start, start + _BLOCK)
        images[part] = np.rint(255 * _drawn(controls[which[part]], random))
    return images, which


def _sign(random: np.random.Generator) -> Floats:
    """Returns the control points of the curves of a sign, (curves, 4, 2) in [-1, 1]; missing ones are not a number."""
    curves = np.full((_CURVES, 4, 2), np.nan, dtype=np.float32)
    for place in range(random.choice([1, 2, 2, 3, 3, 4])):
        points = random.uniform(-1, 1, (4, 2))
        if place and random.random() < 0.6:
            points[0] = curves[place - 1, 3]
        if random.random() < 0.35:
            points[1:3] = points[0] + (points[3] - points[0]) * [[1 / 3], [2 / 3]] + random.normal(0, 0.12, (2, 2))
        if random.random() < 0.15:
            points[3] = points[0]
        curves[place] = points
    return curves


def _drawn(controls: Floats, random: np.random.Generator) -> Floats:
    """Returns a drawing of each sign, (rows, 784) in [0, 1]."""
    rows = len(controls)
    along = np.linspace(0, 1, _POINTS)[:, None]
    bernstein = np.hstack([(1 - along) ** 3, 3 * along * (1 - along) ** 2, 3 * along**2 * (1 - along), along**3])
    points = bernstein @ (controls + random.normal(0, 0.12, controls.shape))
    points = points.reshape(rows, -1, 2) @ _affine(rows, random)
    low, high = np.nanmin(points, axis=1, keepdims=True), np.nanmax(points, axis=1, keepdims=True)
    size = random.uniform(15, 24, (rows, 1, 1)) / (high - low).max(axis=2, keepdims=True)
    points = (points - (low + high) / 2) * size + random.normal(0, 0.8, (rows, 1, 2))
    width, soft = random.uniform(0.8, 2.1, (rows, 1)), random.uniform(0.7, 1.8, (rows, 1))
    ink = (width - _distances(np.nan_to_num(points, nan=_AWAY))) / soft + 0.5
    return np.asarray(ink.clip(0, 1), dtype=np.float32)


def _affine(rows: int, random: np.random.Generator) -> Floats:
    angle, shear, ratio = random.normal(0, 0.13, rows), random.normal(0, 0.2, rows), random.normal(0, 0.15, rows)
    turn = np.stack([np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)], axis=1).reshape(-1, 2, 2)
    slant = np.stack([np.exp(ratio), np.zeros(rows), shear, np.exp(-ratio)], axis=1).reshape(-1, 2, 2)
    return np.asarray(turn @ slant, dtype=np.float32)


def _distances(points: npt.NDArray[np.floating]) -> Floats:
    """Returns each pixel's distance to the nearest point, (rows, 784)."""
    axis = np.arange(SIDE) - (SIDE - 1) / 2
    pixels = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)
    near = points.astype(np.float32)
    squares = (near * near).sum(axis=2)[:, None] - 2 * pixels @ near.transpose(0, 2, 1)
    return np.asarray(np.sqrt((squares.min(axis=2) + (pixels * pixels).sum(axis=1)).clip(0)))
