"""The one-call form: a private table in, or private images, and a synthesizer out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.errors import OptionError
from noisegate.gate.gate import Gate
from noisegate.methods.automatic import AUTO, auto_for
from noisegate.methods.catalogue import make_method
from noisegate.methods.for_images import image_settings
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.ledger import Ledger
from noisegate.schema import Schema
from noisegate.schema_cost import discovery_beside

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.synthesizer import Synthesizer


def synthesize(
    data: Any,
    *,
    schema: Schema | str | Path,
    epsilon: float,
    delta: float = 1e-5,
    method: str = AUTO,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    records: int | None = None,
    unit_column: str | None = None,
    contributions: int | None = None,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    seed: int = 0,
    device: str = "auto",
    on_error: str = "refuse",
    discovery: Certificate | None = None,
    **settings: Any,
) -> Synthesizer:
    """Returns a synthesizer for a private table; its `sample(n)` gives the kind of table that was put in.

    For images, described by `noisegate.schema.pixel_schema`, its `images(n)` gives images, and the method is told their
    shape by the schema.

    Args:
        data: pandas, Polars or PyArrow table, or a path (see `Gate`); of images a folder, a Parquet file with an image
            column or an .npz file.
        schema: Public knowledge about the records, or the path of its TOML file.
        epsilon: ε of the guarantee.
        delta: δ of the guarantee.
        method: Name of the method; "auto" is the one that does best where nothing else is known.
        adjacency: The neighbouring relation.
        records: The number of records when it is public.
        unit_column: Column that says whose record each one is; protects all records of one unit (see `Gate`).
        contributions: With `unit_column`, how many records of a unit are used at most.
        ledger: Ledger to book the cost on, with `dataset`.
        dataset: Name of the data set in the ledger.
        seed: Of the public randomness; the private noise takes none.
        device: "auto", "cpu", "cuda" or "mps".
        on_error: What happens to images that cannot be read: "refuse" the run, or "skip" them.
        discovery: Certificate of the discovery that the schema was bought with, as `discover_schema` returns it. Beside
            a TOML file it is found by itself.
        settings: Settings of the method, for instance ``frequencies=500``.

    Raises:
        UserError: if anything given is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses.
    """
    if isinstance(schema, str | Path):
        discovery = discovery or discovery_beside(Path(schema))
        schema = Schema.from_toml(schema)
    if not isinstance(schema, Schema):
        raise OptionError(f"schema={schema!r} must be a noisegate.Schema, or the path of its TOML file.")
    rare = schema.usable().hardly_satisfiable
    if rare is not None:
        warnings.warn(rare, UserWarning, stacklevel=2)
    name = auto_for(schema) if method == AUTO else method
    chosen = make_method(name, image_settings(name, schema, {"seed": seed, **settings}))
    gate = Gate(
        data,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        records=records,
        unit_column=unit_column,
        contributions=contributions,
        ledger=ledger,
        dataset=dataset,
        on_error=on_error,
        discovery=discovery,
    )
    return chosen.fit(gate, device=device, convert=_converter(data, schema))


def _converter(data: Any, schema: Schema) -> Callable[[pa.Table], Any] | None:
    if isinstance(data, str | Path):
        return None
    from noisegate.data.frames import native_form

    return native_form(data, schema)
