"""What to hand in with a model: an entry for the registry of deployments, and a sheet by NIST SP 800-226."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.app.heading import heading_of
from noisegate.atomic import new_file
from noisegate.errors import OptionError, choices, said
from noisegate.models.folder import verify_model
from noisegate.models.linked.model import LinkedModel
from noisegate.models.synthesizer import Synthesizer, load, model_path
from noisegate.privacy.events import ZeroConcentrated, event_to_json, gaussian_of
from noisegate.privacy.release import Release
from noisegate.schema.linked.links import qualified
from noisegate.schema.linked.schema import LinkedSchema
from noisegate_evaluate.reporting.charts import render_page
from noisegate_evaluate.reporting.promise import column_words, promised

if TYPE_CHECKING:
    from noisegate.models.record_model import FittedModel
    from noisegate.privacy.certificate import Certificate

_FIELDS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    (files("noisegate_evaluate.reporting") / "templates" / "fields.toml").read_text(
        encoding="utf-8"
    )
)
OWNER: Mapping[str, str] = {name: field["says"] for name, field in _FIELDS.items()}
"""Facts that only the owner of a model knows: the name of each field, and its contents."""
_TEMPLATES = {"registry": "registry.yaml", "nist": "nist.md"}


def export(
    model: FittedModel | str | Path,
    *,
    registry: str | Path | None = None,
    nist: str | Path | None = None,
    fields: Mapping[str, str | Sequence[str]] | None = None,
) -> tuple[str, ...]:
    """Writes certificate and verdict of a model in the formats of other institutions. Reads no record.

    Args:
        model: A fitted model, or its folder.
        registry: New file (.yaml): an entry for the registry of deployments of differential privacy, up to its tier 3.
        nist: New file (Markdown): a sheet of the questions of NIST SP 800-226. It also lists what is not answered.
        fields: Facts that only the owner knows, by the names of the registry, such as `name` and `data_curators`.
            Title, owner and purpose of the model are used for the name, the curators and the intended use.

    Returns:
        The names of the fields that remain to be filled in.

    Raises:
        ModelError: if the folder is not a complete model, or its certificate does not hold.
        OptionError: if no file is requested, a file cannot be written, or a field is unknown or unusable.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, export, synthesize
        >>> from noisegate.schema import Boolean
        >>> table = pa.table({"ill": [True, False] * 100})
        >>> model = synthesize(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> export(model, registry="survey.yaml", fields={"name": "Survey"})[:2]
        ('data_curators', 'intended_use')
    """
    out = {
        name: Path(file)
        for name, file in (("registry", registry), ("nist", nist))
        if file is not None
    }
    if not out or len(set(out.values())) < len(out):
        raise OptionError(
            f"{said('registry')} or {said('nist')}: name a file for each that you want; they differ."
        )
    if "registry" in out and not re.fullmatch(
        r"[a-z0-9_]+\.yaml", out["registry"].name
    ):
        raise OptionError(
            f"{said('registry', out['registry'])}: name a file of lowercase "
            "letters, digits and underscores that ends in .yaml, as the "
            "registry asks."
        )
    owner = {name: _stated(name, value) for name, value in (fields or {}).items()}
    if isinstance(model, str | Path):
        verify_model(model_path(model))
        model = load(model)
    if not isinstance(getattr(model, "release", None), Release):
        raise OptionError(
            f"model={type(model).__name__}: expected the path of a model folder, or a fitted model."
        )
    facts = _facts(model, _fields_of_heading(model.release.certificate) | owner)
    with ExitStack() as opened:
        for name, path in out.items():
            text = render_page(_TEMPLATES[name], **facts)
            opened.enter_context(new_file(path, name)).write_text(
                text, encoding="utf-8"
            )
    return tuple(facts["missing"])


def _fields_of_heading(certificate: Certificate) -> dict[str, list[str]]:
    """Returns the fields that the title, owner and purpose of a certificate state."""
    heading = heading_of(certificate)
    return {
        name: [heading[field["heading"]]]
        for name, field in _FIELDS.items()
        if field.get("heading") in heading
    }


def _stated(name: str, value: str | Sequence[str]) -> list[str]:
    """Returns what the owner states in a field, as lines of text."""
    if name not in OWNER:
        raise OptionError(
            f"{said('field', name)} is not known; choose one of {choices(name, OWNER)}."
        )
    field = _FIELDS[name]
    lines = [value] if isinstance(value, str) else list(value)
    shown = said("field", f"{name}={', '.join(map(str, lines))}")
    if len(lines) > 1 and not field.get("several"):
        raise OptionError(f"{shown}: is given {len(lines)} times; give it once.")
    form = re.compile(field.get("form", r".*\S.*"))
    fits = bool(lines) and all(
        isinstance(one, str) and one.isprintable() and form.fullmatch(one)
        for one in lines
    )
    with suppress(ValueError):
        if fits and (name != "publication_date" or date.fromisoformat(lines[0])):
            return lines
    raise OptionError(f"{shown}: expected a line of text that says {OWNER[name]}.")


def _facts(model: Any, owner: Mapping[str, list[str]]) -> dict[str, Any]:
    """Returns what the templates show: the promise, as the public page has it, and what the owner states."""
    certificate = model.release.certificate
    schema = model.release.stated_schema
    is_linked = isinstance(schema, LinkedSchema)
    images = None if is_linked else schema.images
    if is_linked:
        columns = [column for table in schema.tables for column in qualified(table)]
    else:
        columns = [] if images else list(schema.columns)
    fields = {
        name: owner.get(name, [f"TO BE FILLED IN: {meaning}"])
        for name, meaning in OWNER.items()
    }
    # Without a date, that of the registry's own template.
    (day,) = owner.get("publication_date", ["1900-01-01"])
    slug_parts = fields["name"][0], "-".join(fields["data_curators"]), day[:4]
    slug = "_".join(re.sub(r"\W+", "_", part.lower()) for part in slug_parts)
    samplers = {
        gaussian_of(event).sampler.value
        for event in certificate.events
        if not isinstance(event, ZeroConcentrated)
    }
    return promised(model.release) | {
        "owner": fields,
        "missing": [name for name in OWNER if name not in owner],
        "day": day,
        "slug": slug.replace("_", "-"),
        "synthetic": isinstance(model, Synthesizer | LinkedModel),
        "verdict_": getattr(getattr(model, "summary", None), "verdict", None),
        "linked": is_linked,
        "images": images,
        "columns": [
            [" ".join(text.split()) for text in column_words(column)]
            for column in columns
        ],
        "kinds": [event_to_json(event)["kind"] for event in certificate.events],
        "samplers": sorted(samplers),
    }
