"""The one-call form: a private table in, a synthesizer out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.gate.gate import Gate
from noisegate.methods.automatic import AUTO
from noisegate.methods.catalogue import make_method
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.ledger import Ledger
from noisegate.schema import Schema

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
    **settings: Any,
) -> Synthesizer:
    """Returns a synthesizer for a private table; its `sample(n)` gives the kind of table that was put in.

    Args:
        data: pandas, Polars or PyArrow table, or a path (see `Gate`).
        schema: Public knowledge about the table, or the path of its TOML file.
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
        settings: Settings of the method, for instance ``frequencies=500``.

    Raises:
        UserError: if anything given is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses.
    """
    if isinstance(schema, str | Path):
        schema = Schema.from_toml(schema)
    chosen = make_method(method, {"seed": seed, **settings})
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
    )
    return chosen.fit(gate, device=device, convert=_converter(data, schema))


def _converter(data: Any, schema: Schema) -> Callable[[pa.Table], Any] | None:
    if isinstance(data, str | Path):
        return None
    from noisegate.data.frames import native_form

    return native_form(data, schema)
