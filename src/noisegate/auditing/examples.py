"""What is audited where nobody says otherwise: built-in columns, small settings, and the budget of most runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.errors import ModelError, OptionError
from noisegate.methods.registry import METHODS, make_for, method_of
from noisegate.privacy.plan import Budget
from noisegate.schema import Boolean, Categorical, Continuous, Integer, Schema, pixel_schema

if TYPE_CHECKING:
    from noisegate.methods.method import Method

TABLE = Schema(
    (
        Integer(name="age", lower=0, upper=100),
        Continuous(name="dose", lower=0.0, upper=1.0, missing=True),
        Categorical(name="ward", levels=("north", "south", "east", "west")),
        Boolean(name="ill"),
    ),
    label="ill",
)
IMAGES = pixel_schema(8, 8, labels=("across", "down"))
OF_IMAGES = ("joint", "mepf", "dp-mepf", "dp-mepf-trained", "dp-mge", "dp-gan-ft", "dp-gan-mi")
_DECODED = ("dp-mge", "dp-gan-ft", "dp-gan-mi")
_STEPS: dict[str, Any] = {"steps": 20, "sampling_probability": 0.2}
_SMALL_GAN: dict[str, Any] = {**_STEPS, "hidden": (8,), "discriminator_hidden": (8,), "latent": 4, "batch": 16}
_PICTURES: dict[str, Any] = {"latent": 4, "hidden": (8,), "channels": (4, 2)}
SMALL: dict[str, dict[str, Any]] = {
    "aim": {"bins": 4, "iterations": 20, "degree": 2, "rounds": 6},
    "mst": {"bins": 4, "iterations": 20},
    "dp-merf": {"frequencies": 50},
    "dp-llm": {**_STEPS, "maps": 2},
    "psg": {**_STEPS, "hidden": (8,), "samples_per_class": 2, "batches": 1, "outer": 1, "epochs": 1},
    "dp-dre": {**_STEPS, "hidden": (4,), "references": 200, "dimensions": 8, "batch": 32},
    "dp-gan": {**_SMALL_GAN, "discriminator_steps": 2},
    "dp-cgan": {**_SMALL_GAN, "discriminator_steps": 2},
    "dp-sinkhorn": {**_STEPS, "hidden": (8,), "latent": 4, "batch": 16, "iterations": 10},
    "joint": {"pixels": 50, "orientations": 50, "cell": 4},
    "mepf": _PICTURES,
    "dp-mepf": _PICTURES,
    "dp-mepf-trained": {
        **_PICTURES,
        "encoder_width": 4,
        "encoder_depth": 2,
        "encoder_steps": 20,
        "encoder_sampling_probability": 0.2,
    },
    "dp-gan-ft": {**_SMALL_GAN, "pretraining_steps": 2, "public_records": 40},
    "dp-gan-mi": _SMALL_GAN,
}


@dataclass(frozen=True, kw_only=True)
class Example:
    """What is audited: a method with its settings, columns, and what is claimed."""

    method: Method
    schema: Schema
    budget: Budget


def example(target: Any, *, schema: Schema | str | Path | None, settings: dict[str, Any], folder: Path) -> Example:
    """Returns what `noisegate.audit` is asked for.

    Args:
        target: Name of a method, or the folder of a saved model.
        schema: Columns, or their TOML file, or None.
        settings: Settings of the method.
        folder: Where made-up public records and networks may be written.

    Raises:
        UserError: if there is no such method or model, or something does not fit.
    """
    named = isinstance(target, str) and target in METHODS
    if not named and isinstance(target, str | Path):
        if not Path(target).is_dir():
            known = ", ".join(METHODS)
            raise OptionError(f"{target}: neither the folder of a model nor a method; methods are {known}.")
        return _of_model(Path(target), schema, settings)
    if not named:
        raise OptionError(f"target={target!r} must be the name of a method, or the folder of a saved model.")
    if isinstance(schema, str | Path):
        schema = Schema.from_toml(schema)
    if schema is None:
        schema = IMAGES if target in OF_IMAGES else TABLE
        settings = {**SMALL.get(target, {}), **_made_up(target, schema, folder), **settings}
    return Example(method=make_for(target, schema, settings), schema=schema, budget=Budget(epsilon=1.0))


def _of_model(folder: Path, schema: object, settings: dict[str, Any]) -> Example:
    from noisegate.models.folder import verify_model

    if schema is not None or settings:
        raise OptionError(
            f"{folder} is a model, which has its own schema and settings; leave out those that were given."
        )
    certificate = verify_model(folder).certificate
    if "schema" not in certificate.public:
        raise ModelError(f"{folder}: the certificate names no schema, so that no records can be made up for it.")
    return Example(
        method=method_of(certificate),
        schema=Schema.from_json(certificate.public["schema"]),
        budget=Budget(
            epsilon=certificate.epsilon,
            delta=certificate.delta,
            adjacency=certificate.adjacency,
            unit=certificate.unit,
            contributions=certificate.contributions,
        ),
    )


def _made_up(name: str, schema: Schema, folder: Path) -> dict[str, Any]:
    """Returns settings that point to public records and a decoder, made up and written into `folder`."""
    found: dict[str, Any] = {}
    if name in ("dp-dre", "dp-gan-ft"):
        import pyarrow.parquet as pq

        from noisegate.auditing.worlds import candidates
        from noisegate.schema.decode import decode

        path = folder / "public.parquet"
        pq.write_table(decode(candidates(schema, 200, seed=1), schema), path)
        found["public"] = str(path)
    if name in _DECODED:
        found["decoder"] = str(_write_decoder(folder / "decoder.safetensors"))
    return found


def _write_decoder(path: Path) -> Path:
    from noisegate.networks.decoder import DecoderDesign, build_decoder, decoder_bytes
    from noisegate.networks.encoder import SHIPPED_SHA256

    assert IMAGES.images is not None
    design = DecoderDesign(
        shape=IMAGES.images.shape, features=144, latent=2, channels=(4, 2), encoder=SHIPPED_SHA256, layer="last"
    )
    path.write_bytes(decoder_bytes(build_decoder(design, seed=0)))
    return path
