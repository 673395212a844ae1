"""`noisegate demo --images`: the whole way with images: digits that this program draws itself, so they are nobody's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.cli.console import OUT, closeness, print_json, say, steps

if TYPE_CHECKING:
    from noisegate.schema import Schema
    from noisegate.synthesizer import Synthesizer

FIGURES, SCHEMA, MODEL, SYNTHETIC = "demo.json", "images.toml", "model", "synthetic.parquet"
DRAWN, DRAWN_PICTURE, PICTURE = "drawn.parquet", "drawn.png", "synthetic.png"
MADE = {FIGURES, SCHEMA, MODEL, SYNTHETIC, DRAWN, DRAWN_PICTURE, PICTURE}

COUNT = 10_000
SETTINGS: Mapping[str, Any] = {"pixels": 400, "orientations": 400, "fit_options": {"steps": 1000, "batch": 100}}
"""A sixth of the steps of `noisegate fit`, so that a demonstration takes a minute; strokes stay rougher for it."""

_CAPTION = """\
Look at {picture} beside {drawn}: each row is a digit, and every digit should be there.
Some images are spoilt: they come from {count:,} images and a short fit; `noisegate fit` takes six times as many steps.
The guarantee is epsilon = {epsilon:g}, delta = {delta:g}, for adding or removing one image. What was copied may be
shown here because it belongs to nobody; private images may not.
"""


def make(folder: Path, epsilon: float) -> dict[str, Any]:
    """Fills the empty `folder`; returns what is to be told of it."""
    from noisegate.cli.drawn_digits import DIGITS, SIDE, drawn_digits
    from noisegate.schema import pixel_schema

    schema = pixel_schema(SIDE, SIDE, labels=range(DIGITS))
    schema.to_toml(folder / SCHEMA)
    _write(folder / DRAWN, folder / DRAWN_PICTURE, schema, drawn_digits(COUNT), COUNT)
    say(f"1. {COUNT:,} digits of {SIDE} x {SIDE} pixels, drawn from fonts, stand for private images.")
    synthesizer = _fit(folder / DRAWN, schema, epsilon)
    synthesizer.save(folder / MODEL)
    # As many images as the noisy count says: the true number is private.
    number = max(round(float(synthesizer.release.values["counts"].sum())), 1)
    _write(folder / SYNTHETIC, folder / PICTURE, schema, synthesizer.images(number, seed=0), number)
    say(f"4. Drew {number:,} synthetic images.")
    certificate = synthesizer.certificate
    figures = {"epsilon": certificate.epsilon, "delta": certificate.delta, "images": COUNT, "synthetic": number}
    (folder / FIGURES).write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return figures


def tell(out: Path, figures: Mapping[str, Any], *, as_json: bool) -> None:
    """Says what was made and what to look at."""
    if as_json:
        files = {"synthetic": SYNTHETIC, "certificate": f"{MODEL}/certificate.md", "picture": PICTURE, "real": DRAWN}
        print_json({name: str(out / file) for name, file in files.items()} | {"figures": dict(figures)})
        return
    guarantee = {"epsilon": figures["epsilon"], "delta": figures["delta"], "count": figures["images"]}
    OUT.print(_CAPTION.format(picture=PICTURE, drawn=DRAWN_PICTURE, **guarantee), soft_wrap=True, markup=False)
    for line in (
        f"Synthetic images:  {out / PICTURE}, and all of them in {out / SYNTHETIC}",
        f"Their certificate: {out / MODEL / 'certificate.md'}   (check it: noisegate verify {out / MODEL})",
        f"What was copied:   {out / DRAWN_PICTURE}, and all of it in {out / DRAWN}",
    ):
        OUT.print(line, soft_wrap=True, markup=False)


def _fit(data: Path, schema: Schema, epsilon: float) -> Synthesizer:
    from noisegate.gate.gate import Gate
    from noisegate.methods.joint import JointEmbedding

    assert schema.images is not None
    shape = schema.images.shape
    method = JointEmbedding(image=(shape.height, shape.width, shape.channels), **SETTINGS)
    release = method.ask(Gate(data, schema=schema, epsilon=epsilon, unit="image"))
    numbers = sum(values.size for values in release.values.values())
    say(f"2. The gate: {numbers:,} noisy sums left it, epsilon = {epsilon:g}. The images are not used again.")
    fitting = method.fitting(release)
    with steps("3. Fitting a generator to the sums", fitting.steps) as progress:
        fitting.run(lambda state: progress(state.step, closeness(state.discrepancy)))
    say(f"3. A generator, fitted to the sums in {fitting.step} steps.")
    return method.synthesizer(release, fitting)


def _write(out: Path, picture: Path, schema: Schema, batches: Any, number: int) -> None:
    """Writes images, and a picture of some of each class."""
    from noisegate.output.formats import image_writer
    from noisegate.output.grid import SampleGrid

    assert schema.images is not None
    shown = SampleGrid(form=schema.images, out=picture)
    with image_writer(out, schema.images, number) as write:
        for batch in batches:
            write(batch)
            shown.add(batch)
    shown.write()
