"""What to hand in with a model: an entry for the registry of deployments, and a sheet by NIST SP 800-226."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.atomic import new_file
from noisegate.errors import OptionError, choices, said
from noisegate.linked.links import qualified
from noisegate.linked.model import LinkedModel
from noisegate.linked.schema import LinkedSchema
from noisegate.models.folder import verify_model
from noisegate.models.synthesizer import Synthesizer, load, model_path
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import (
    BatchGaussianEvent,
    ContinualGaussianEvent,
    SampledGaussianEvent,
    Sampler,
    ShardGaussianEvent,
    ThresholdedGaussianEvent,
    ZeroConcentratedEvent,
)
from noisegate.privacy.release import Release
from noisegate_evaluate.reporting.page import render_page
from noisegate_evaluate.reporting.public import described, promised

if TYPE_CHECKING:
    from noisegate.models.record_model import FittedModel

OWNER: Mapping[str, str] = {
    "name": "what the data product is called",
    "data_curators": "who publishes it",
    "intended_use": "what it is for",
    "data_product_region": "which region the data describe, or whose law applies",
    "publication_date": "the day of publication, YYYY-MM-DD",
    "data_product_sector": "Technology, Healthcare, Education, Government, Energy or Finance",
    "access_control": "how the private records were collected and are kept, and who can reach them",
    "justification": "why this epsilon and this privacy unit, and who decided",
    "sources": "addresses of the data product and of what describes it",
    "registry_authors": "who filled in these statements",
}
"""What only the owner of a model knows, by the names of the registry's schema, but for `access_control`."""
_SEVERAL = "data_curators", "registry_authors"
_SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
_UNKNOWN_DATE = "1900-01-01"  # as the registry's own template has it
_PROOFS: Mapping[Any, tuple[str, ...]] = {
    Sampler.DISCRETE_GAUSSIAN: ("G-04",),
    Sampler.ROUNDED_GAUSSIAN: ("G-05",),
    Sampler.CONVOLVED_GAUSSIAN: ("G-18",),
    Sampler.SUMMED_GAUSSIAN: ("G-32",),
    SampledGaussianEvent: ("G-19", "G-20", "G-21"),
    BatchGaussianEvent: ("G-19", "G-21", "G-24"),
    ShardGaussianEvent: ("G-26",),
    ThresholdedGaussianEvent: ("G-15",),
    ZeroConcentratedEvent: ("G-16", "G-17"),
    ContinualGaussianEvent: ("G-34",),
}
"""By the kind of an event, and by how its noise was drawn: what is proved of it in docs/guarantees.md."""


@dataclass(frozen=True, kw_only=True)
class Statements:
    """The files that were written, None of those not asked for; and what in them the owner has yet to fill in."""

    registry: Path | None
    nist: Path | None
    missing: tuple[str, ...]


def export(
    model: FittedModel | str | Path,
    *,
    registry: str | Path | None = None,
    nist: str | Path | None = None,
    fields: Mapping[str, str | Sequence[str]] | None = None,
) -> Statements:
    """Writes what a model's certificate and its verdict answer as others ask for it; reads no record.

    Args:
        model: A fitted model, or its folder.
        registry: New file, .yaml: an entry for the registry of deployments of differential privacy, up to its tier 3.
        nist: New file: a sheet by NIST SP 800-226, Markdown, which also says what is not answered.
        fields: What only the owner knows, by the names in `OWNER`; what is left out stands there to be filled in.

    Raises:
        ModelError: if the folder is no whole model, or its certificate does not hold.
        OptionError: if no file is asked for, one cannot be written, or a field is not known or unusable.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, export, synthesize
        >>> from noisegate.schema import Boolean
        >>> table = pa.table({"ill": [True, False] * 100})
        >>> model = synthesize(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> export(model, registry="survey.yaml", fields={"name": "Survey"}).missing[:2]
        ('data_curators', 'intended_use')
    """
    out = {name: Path(file) for name, file in (("registry", registry), ("nist", nist)) if file is not None}
    if not out or len(set(out.values())) < len(out):
        raise OptionError(f"{said('registry')} or {said('nist')}: name a file for each that you want; they differ.")
    if "registry" in out and not re.fullmatch(r"[a-z0-9_]+\.yaml", out["registry"].name):
        cure = "name a file of lowercase letters, digits and underscores that ends in .yaml, as the registry asks."
        raise OptionError(f"{said('registry', out['registry'])}: {cure}")
    owner = _owner(fields or {})
    if isinstance(model, str | Path):
        verify_model(model_path(model))
        model = load(model)
    if not isinstance(getattr(model, "release", None), Release):
        raise OptionError(f"model={type(model).__name__}: expected the path of a model folder, or a fitted model.")
    facts = _facts(model, owner)
    with ExitStack() as files:
        for name, template in (("registry", "registry.yaml"), ("nist", "nist.md")):
            if name in out:
                text = render_page(template, **facts)
                files.enter_context(new_file(out[name], name)).write_text(text, encoding="utf-8")
    return Statements(registry=out.get("registry"), nist=out.get("nist"), missing=tuple(facts["missing"]))


def _owner(fields: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
    """Returns what the owner states, as lines of text."""
    stated = {}
    for name, value in fields.items():
        if name not in OWNER:
            raise OptionError(f"{said('field', name)} is not known; choose one of {choices(name, OWNER)}.")
        lines = [value] if isinstance(value, str) else list(value)
        shown = said("field", f"{name}={', '.join(map(str, lines))}")
        if not lines or not all(isinstance(line, str) and line.strip() and line.isprintable() for line in lines):
            raise OptionError(f"{shown}: expected a line of text; say {OWNER[name]}.")
        if len(lines) > 1 and name not in _SEVERAL:
            raise OptionError(f"{shown}: is given {len(lines)} times; give it once.")
        if name == "data_product_sector" and lines[0] not in _SECTORS:
            raise OptionError(f"{shown}: choose one of {', '.join(_SECTORS)}, or leave it out.")
        if name == "publication_date" and not _is_day(lines[0]):
            raise OptionError(f"{shown}: expected a day such as 2026-03-01.")
        stated[name] = lines
    return stated


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _facts(model: Any, owner: Mapping[str, list[str]]) -> dict[str, Any]:
    """Returns what the templates show: the promise, as the public page has it, and what the owner states."""
    certificate, schema = model.release.certificate, model.release.stated_schema
    told = {name: owner.get(name, [f"TO BE FILLED IN: {meaning}"]) for name, meaning in OWNER.items()}
    day = owner.get("publication_date", [_UNKNOWN_DATE])[0]
    named = [told["name"][0], "-".join(told["data_curators"]), day.split("-")[0]]
    slug = "_".join(re.sub(r"\W+", "_", part.lower()) for part in named).replace("_", "-")
    return promised(model.release) | {
        "owner": told,
        "stated": owner,
        "day": day,
        "slug": slug,
        "synthetic": isinstance(model, Synthesizer | LinkedModel),
        "verdict_": getattr(getattr(model, "summary", None), "verdict", None),
        "domain": list(_domain(schema)),
        "missing": [name for name in OWNER if name not in owner],
        "proofs": _proofs(certificate, linked=isinstance(schema, LinkedSchema)),
        "samplers": sorted({event.sampler.value for event in certificate.events if hasattr(event, "sampler")}),
    }


def _domain(schema: Any) -> Iterator[str]:
    """Yields what a record may hold, a line for each column."""
    if isinstance(schema, LinkedSchema):
        columns = [column for table in schema.tables for column in qualified(table)]
    elif schema.images is not None:
        shape, labels = schema.images.shape, schema.images.labels
        of = f", with a label out of {', '.join(map(str, labels))}" if labels else ""
        yield f"images of {shape.height} × {shape.width} pixels and {shape.channels} channels{of}"
        return
    else:
        columns = list(schema.columns)
    for column in columns:
        name, kind, values = described(column)
        yield " ".join(f"{name}: {kind}, {values}".split())


def _proofs(certificate: Certificate, *, linked: bool) -> list[str]:
    """Returns the statements of docs/guarantees.md that the claim rests on."""
    found = {"G-01", "G-02", "G-03", "G-06", "G-07", "G-08", "G-09", "G-11", "G-28"}
    for event in certificate.events:
        found |= {*_PROOFS.get(type(event), ()), *_PROOFS.get(getattr(event, "sampler", None), ())}
    others = {
        "G-10": certificate.ledger is not None,
        "G-14": certificate.contributions is not None,
        "G-30": certificate.silos is not None,
        "G-31": linked,
    }
    return sorted(found | {proof for proof, applies in others.items() if applies})
