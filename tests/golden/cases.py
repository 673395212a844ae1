"""What is asked for in the golden files: methods, schemas, settings. Add cases; change none."""

from __future__ import annotations

from typing import Any

SCHEMAS = ("mixed", "plain", "grey", "colour", "bare", "odd")
"""By their file: a labelled table with every kind of column; one without a label; images of 8 x 8, grey, in colour and
without a label; and of 6 x 10."""

BUDGETS: dict[str, tuple[Any, ...]] = {
    "add-remove, 1": ("--epsilon", 1, "--adjacency", "add-remove", "--records", 5000),
    "replace-one, 1": ("--epsilon", 1, "--adjacency", "replace-one", "--records", 5000),
    "add-remove, 0.2": ("--epsilon", 0.2, "--delta", 1e-6),
    "units, 8": (
        "--epsilon",
        8,
        "--unit-column",
        "patient",
        "--contributions",
        3,
        "--records",
        40,
    ),
}
"""By name, the options of a plan. The first is asked of every schema, the others of the first and the third."""

_NETWORK = {"latent": 4, "hidden": [8], "channels": [4, 2]}
_SMALL = {
    **_NETWORK,
    "fit_options": {"steps": 4, "batch": 16, "check_every": 2, "check_batches": 3},
}
_MIXTURE = {"fit_options": {"steps": 20, "components": 6}}
_GAN = {
    "latent": 4,
    "hidden": [8],
    "steps": 4,
    "discriminator_steps": 2,
    "sampling_probability": 0.5,
    "batch": 16,
}
_LAYERS = {"discriminator_hidden": [6]}
_FEATURES = {**_GAN, **_LAYERS, "decoder": "decoder.safetensors"}
_DRE = {
    "references": 30,
    "dimensions": 4,
    "hidden": [4],
    "steps": 4,
    "sampling_probability": 0.5,
    "batch": 16,
}
_CHECKED = {
    "steps": 4,
    "batch": 16,
    "check_every": 2,
    "check_batches": 3,
    "check_images": 32,
}
_MOMENTS = {**_NETWORK, "fit_options": _CHECKED}
_DIFFUSION = {
    "channels": [4],
    "steps": 3,
    "sampling_probability": 0.5,
    "sampling_steps": 2,
}
_TEACHERS = {
    "latent": 4,
    "hidden": [8],
    "steps": 3,
    "teachers": 5,
    "teacher_hidden": [6],
    "teacher_records": 4,
    "teacher_rounds": 4,
    "teacher_learning_rate": 0.1,
    "batch": 6,
}
_PSG = {
    "samples_per_class": 3,
    "steps": 4,
    "sampling_probability": 0.5,
    "batches": 1,
    "outer": 2,
    "epochs": 1,
}

FITS: dict[str, tuple[str, str, dict[str, Any]]] = {
    # tables
    "pairwise": ("pairwise", "mixed", {"cells": 4, **_MIXTURE}),
    "pairwise-labelled": ("pairwise", "mixed", {"cells": 4, **_MIXTURE}),
    "pairwise-triples": (
        "pairwise",
        "plain",
        {"cells": 3, "triples": [["x", "n", "k"]], **_MIXTURE},
    ),
    "merf-table": ("dp-merf", "mixed", {"frequencies": 20, **_SMALL}),
    "merf-mixture": (
        "dp-merf",
        "plain",
        {"generator": "mixture", "frequencies": 20, "components": 6, **_SMALL},
    ),
    "hp-mixture": (
        "dp-hp",
        "mixed",
        {"most_coordinates": 4000, "components": 6, **_SMALL},
    ),
    "hp-table": (
        "dp-hp",
        "plain",
        {
            "generator": "table",
            "products": "random",
            "draws": 2,
            "order": 5,
            "product_order": 3,
            **_SMALL,
        },
    ),
    "ntk": ("dp-ntk", "mixed", {"width": 3, "cells": 6, **_SMALL}),
    "gan": ("dp-gan", "plain", {**_GAN, **_LAYERS}),
    "cgan": ("dp-cgan", "mixed", {**_GAN, **_LAYERS, "label_shares": [0.3, 0.7]}),
    "dre": ("dp-dre", "mixed", {**_DRE, "public": "public.csv"}),
    "psg": ("psg", "mixed", {**_PSG, "hidden": [6]}),
    "llm": ("dp-llm", "mixed", {"maps": 3, "steps": 4, "sampling_probability": 0.5}),
    "llm-projected": (
        "dp-llm",
        "grey",
        {"maps": 2, "projection": 5, "steps": 4, "sampling_probability": 0.5},
    ),
    "sgd": (
        "dp-sgd",
        "mixed",
        {"hidden": [4], "steps": 4, "sampling_probability": 0.5},
    ),
    "sgd-images": (
        "dp-sgd",
        "grey",
        {"width": 4, "depth": 1, "steps": 4, "sampling_probability": 0.5},
    ),
    "mst": ("mst", "mixed", {"bins": 3, "iterations": 10}),
    "aim": ("aim", "plain", {"bins": 3, "iterations": 10, "rounds": 2, "degree": 2}),
    "privbayes": ("privbayes", "mixed", {"cells": 4}),
    "privbayes-plain": ("privbayes", "plain", {"cells": 3, "degree": 1}),
    "tab-pe": ("tab-pe", "mixed", {"cells": 4, "candidates": 40, "rounds": 2}),
    "datalens": ("datalens", "mixed", {**_TEACHERS, "largest": 3}),
    "g-pate": (
        "g-pate",
        "plain",
        {**_TEACHERS, "coordinates": 2, "bins": 6, "bound": 0.5},
    ),
    "gs-wgan": ("gs-wgan", "mixed", {**_TEACHERS, "warm_up": 2, "learning": 3}),
    "pate-gan": ("pate-gan", "mixed", _TEACHERS),
    "pairwise-units": ("pairwise", "plain", {"cells": 3, **_MIXTURE}),
    "discovered": ("pairwise", "discovered", {"cells": 3, **_MIXTURE}),
    # images
    "ntk-images": ("dp-ntk", "grey", {"width": 4, **_SMALL}),
    "merf-convolutional": ("dp-merf", "grey", {"frequencies": 20, **_SMALL}),
    "merf-connected": (
        "dp-merf",
        "odd",
        {
            "frequencies": 20,
            "latent": 4,
            "hidden": [8],
            **{"fit_options": {"steps": 4}},
        },
    ),
    "hp-convolutional": (
        "dp-hp",
        "odd",
        {"order": 4, "product_rank": 3, "product_order": 2, **_SMALL},
    ),
    "joint": ("joint", "grey", {"pixels": 20, "orientations": 20, **_SMALL}),
    "joint-residual": (
        "joint",
        "colour",
        {"pixels": 20, "orientations": 20, "generator": "residual", **_SMALL},
    ),
    "joint-odd": ("joint", "odd", {"pixels": 20, "orientations": 20, **_SMALL}),
    "joint-perceptual": (
        "joint",
        "bare",
        {
            "pixels": 20,
            "orientations": 20,
            "perceptual_share": 1.0,
            "layers": ["last"],
            **_SMALL,
        },
    ),
    "mepf": ("dp-mepf", "grey", {"layers": ["late", "last"], **_MOMENTS}),
    "mepf-second": (
        "dp-mepf",
        "colour",
        {
            "layers": ["last"],
            "moments": 2,
            "stopping": "private",
            "generator": "fully-connected",
            **_MOMENTS,
        },
    ),
    "mepf-trained": (
        "dp-mepf-trained",
        "grey",
        {
            "encoder_width": 4,
            "encoder_depth": 2,
            "encoder_steps": 3,
            "encoder_sampling_probability": 0.5,
            **_MOMENTS,
        },
    ),
    "mge": ("dp-mge", "grey", {"decoder": "decoder.safetensors"}),
    "mge-full": (
        "dp-mge",
        "bare",
        {
            "decoder": "decoder.safetensors",
            "public": "public.npz",
            "axes": 3,
            "per_class": False,
        },
    ),
    "gan-images": (
        "dp-gan",
        "grey",
        {**_GAN, "channels": [4, 2], "discriminator_channels": [2, 4]},
    ),
    "cgan-images": (
        "dp-cgan",
        "odd",
        {**_GAN, "discriminator_hidden": [6], "discriminator_channels": [2, 4]},
    ),
    "pe": (
        "pe",
        "grey",
        {"public": "public.npz", "candidates": 20, "images": 12, "rounds": 2},
    ),
    "gan-inversion": ("dp-gan-mi", "grey", _FEATURES),
    "gan-finetuned": (
        "dp-gan-ft",
        "grey",
        {
            **_FEATURES,
            "public": "public.npz",
            "public_records": 20,
            "pretraining_steps": 3,
        },
    ),
    "dre-images": ("dp-dre", "grey", {**_DRE, "public": "public.npz"}),
    "dre-decoded": (
        "dp-dre",
        "grey",
        {**_DRE, "public": "public.npz", "decoder": "decoder.safetensors"},
    ),
    "dpdm": ("dpdm", "colour", {**_DIFFUSION, "label_shares": [0.2, 0.3, 0.5]}),
    "dpdm-bare": ("dpdm", "bare", _DIFFUSION),
    "feta": ("dp-feta", "grey", {**_DIFFUSION, "means_steps": 2}),
    "datalens-images": (
        "datalens",
        "grey",
        {**_TEACHERS, "channels": [4, 2], "largest": 20},
    ),
    "g-pate-images": (
        "g-pate",
        "odd",
        {
            **_TEACHERS,
            "channels": [4, 2],
            "coordinates": 5,
            "bound": 0.1,
            "sampling_probability": 0.5,
        },
    ),
    "psg-images": ("psg", "grey", {**_PSG, "width": 4, "depth": 1}),
    "psg-prior": ("psg", "colour", {**_PSG, "width": 4, "depth": 1, "prior": True}),
}
"""Tiny fits by name: method, schema, settings. Paths are in the folder of the files."""

FIT_OPTIONS: dict[str, tuple[Any, ...]] = {
    "pairwise-units": ("--unit-column", "patient", "--contributions", 2),
    "pairwise-triples": ("--adjacency", "replace-one"),
    "mepf-second": ("--adjacency", "replace-one"),
    "gan": ("--adjacency", "replace-one"),
}
"""How a fit is asked for, beside its settings, ε = 4 and 48 records."""

KINDS = (
    "income=continuous,age=integer,day in=date,day out=date,measured=datetime,sent=datetime-utc,stage=categorical,"
    "job=categorical,ward=categorical,smoker=boolean,answer=categorical"
)
"""Of the columns of the first schema, for a discovery."""

OTHER_SETTINGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "merf-scales": (
        "dp-merf",
        "plain",
        {"length_scales": {"x": [0.1, 0.2]}, "kernel": "numeric", "seed": 9},
    ),
    "hp-subsets": (
        "dp-hp",
        "plain",
        {"products": "random", "subsets": [["x", "n"]], "length_scales": {"x": 0.2}},
    ),
    "pairwise-pairs": ("pairwise", "plain", {"pairs": [["x", "k"]], "seed": 3}),
    "mepf-paper": (
        "dp-mepf",
        "grey",
        {"preset": "paper", "weights": "vgg.pth", "sha256": "0" * 64},
    ),
    "merf-by-hand": ("dp-merf", "grey", {"generator": "table", "hidden": [5, 6]}),
}
"""Settings that are not fitted."""


ONE_STEP: dict[str, Any] = {
    "fit_options": {"steps": 1},
    "steps": 1,
    "sampling_probability": 1.0,
    "discriminator_steps": 1,
    "outer": 1,
    "encoder_steps": 1,
    "encoder_sampling_probability": 1.0,
    "means_steps": 0,
}
"""What settings become where only sums are looked at: one step, on all records, and hardly a fit."""

UNSEEN = frozenset({"aim", "mst"})
"""Methods whose noise is drawn by OpenDP together with the choice of what is asked: there are no sums without it."""


_ALL_PAIRS = frozenset({"pairwise", "pairwise-units", "discovered"})
"""Fits whose sums are those of pairs that 48 records cannot say: asked by default then, and on demand since."""


DEFAULTS: dict[str, dict[str, Any]] = {
    "joint": {
        "strokes": 0,
        "wavelets": 0,
        "unit_orientations": False,
        "pose": 0.0,
        "tone": 0.0,
        "hidden": [],
    },
    "dp-llm": {
        "steps": 300,
        "sampling_probability": 0.05,
        "init_std": 4.0,
        "centre": 0.5,
    },
}
"""Of methods whose defaults are others since: those with which their golden files were written."""
_CONNECTED = {"generator": "fully-connected"}
_NETWORK = {"network": "fully-connected"}
ODD: dict[str, dict[str, Any]] = {
    **{
        "joint": {**_CONNECTED, "cell": 2},
        "dp-merf": _CONNECTED,
        "dp-hp": _CONNECTED,
        "dp-ntk": _CONNECTED,
    },
    **{"mepf": _CONNECTED, "dp-mepf": _CONNECTED, "dp-mepf-trained": _CONNECTED},
    **{
        name: _NETWORK
        for name in ("dp-gan", "dp-cgan", "datalens", "g-pate", "gs-wgan", "pate-gan")
    },
}
"""The same of images whose sides are no multiples of four, which convolutions could not make then."""


def asked(method: str, schema: str, fit: str) -> dict[str, Any]:
    """Returns the settings of a case, "default" or one by its name, with the defaults of then."""
    name = "joint" if method == "auto" and schema not in ("mixed", "plain") else method
    changed = {} if fit == "default" else {**FITS, **OTHER_SETTINGS}[fit][2]
    return {
        **DEFAULTS.get(name, {}),
        **(ODD.get(name, {}) if schema == "odd" else {}),
        **changed,
    }


def summed_settings(fit: str) -> dict[str, Any]:
    """Returns the settings of a fit, with `ONE_STEP` where it has such a setting."""
    settings = asked(*FITS[fit][:2], fit)
    if fit in _ALL_PAIRS:
        settings = {"pairs": "all", **settings}
    shortened = {
        name: value
        for name, value in ONE_STEP.items()
        if name in settings and name != "fit_options"
    }
    if "fit_options" in settings:
        shortened["fit_options"] = {
            **settings["fit_options"],
            **ONE_STEP["fit_options"],
        }
    return settings | shortened


def options(settings: dict[str, Any]) -> list[str]:
    """Returns settings as options of the command line."""
    import json

    pairs = (
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in settings.items()
    )
    return [part for name, value in pairs for part in ("--set", f"{name}={value}")]


def records_of(fit: str) -> str:
    """Returns the file with the private records of a fit."""
    others = {"pairwise-units": "units.csv", "discovered": "mixed.csv"}
    schema = FITS[fit][1]
    return others.get(
        fit, f"{schema}.{'csv' if schema in ('mixed', 'plain') else 'npz'}"
    )


def fit_options(fit: str, settings: dict[str, Any] | None = None) -> list[Any]:
    """Returns what `noisegate fit` is told, but for where to write; `settings` are other ones than those of the fit."""
    method, schema, usual = FITS[fit]
    arguments = [
        "--schema",
        f"{schema}.toml",
        "--method",
        method,
        "--epsilon",
        4,
        "--records",
        48,
        "--device",
        "cpu",
    ]
    return [
        records_of(fit),
        *arguments,
        *FIT_OPTIONS.get(fit, ()),
        *options(usual if settings is None else settings),
    ]
