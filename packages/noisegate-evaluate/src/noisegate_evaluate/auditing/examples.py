"""What is audited: a method, columns and a budget where nobody says otherwise, and two neighbouring sets of records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from noisegate.errors import ModelError, OptionError, choices
from noisegate.gate.execution import made_up_records
from noisegate.methods.method import Method
from noisegate.methods.registry import METHODS, make_for, method_of
from noisegate.models.folder import verify_model
from noisegate.models.linked.model import with_keys
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget
from noisegate.records import Rows
from noisegate.schema import (
    Boolean,
    Categorical,
    Continuous,
    EncodedTable,
    Integer,
    Schema,
    pixel_schema,
)
from noisegate.schema.decode import decode
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate.schema.schema import read_schema
from noisegate.sources.tables.tables import TableSource

AnySchema: TypeAlias = Schema | LinkedSchema
Family: TypeAlias = "Mapping[str, pa.Table]"
"""One record of the first table and all that is linked to it, as tables by name."""
UNIT = "noisegate audited unit"
_TRIES = 200
_AGE = Integer(name="age", lower=0, upper=100)
_DOSE = Continuous(name="dose", lower=0.0, upper=1.0, missing=True)
_WARD = Categorical(name="ward", levels=("north", "south", "east", "west"))
TABLE = Schema((_AGE, _DOSE, _WARD, Boolean(name="ill")), label="ill")
_VISIT = Schema((Integer(name="day", lower=0, upper=9999), Boolean(name="urgent")))
_CODE = Schema((Categorical(name="code", levels=("heart", "lung", "other")),))
_PATIENTS = LinkedTable(name="patients", key="id", schema=Schema((_AGE,)))
_VISITS = LinkedTable(
    name="visits",
    key="visit",
    schema=_VISIT,
    parent="patients",
    parent_key="id",
    order="day",
    most=5,
)
_DIAGNOSES = LinkedTable(
    name="diagnoses", schema=_CODE, parent="visits", parent_key="visit", most=3
)
LINKED = LinkedSchema((_PATIENTS, _VISITS, _DIAGNOSES))
IMAGES = pixel_schema(8, 8, labels=("across", "down"))
_SCHEMAS: Mapping[str, AnySchema] = {"table": TABLE, "images": IMAGES, "linked": LINKED}


def example(
    target: Any, *, schema: Any, settings: dict[str, Any], folder: Path
) -> tuple[Method, AnySchema, Budget]:
    """Returns what `noisegate.audit` is asked for; made-up public records and networks are written into `folder`."""
    if not isinstance(target, str | Path):
        raise OptionError(
            f"target={target!r} must be the name of a method, or the folder of a saved model."
        )
    if target not in METHODS:
        if Path(target).is_dir():
            return _of_model(Path(target), schema, settings)
        raise OptionError(
            f"{target}: neither the folder of a model nor a method; methods are {choices(target, METHODS)}."
        )
    if isinstance(schema, str | Path):
        schema = read_schema(schema)
    if schema is None:
        method = METHODS[str(target)]
        schema = _SCHEMAS[method.audit_on]
        settings = {
            **method.audit_settings,
            **_made_up(method.audit_files, schema, folder),
            **settings,
        }
    return make_for(str(target), schema, settings), schema, Budget(epsilon=1.0)


def _of_model(
    folder: Path, schema: object, settings: dict[str, Any]
) -> tuple[Method, AnySchema, Budget]:
    """Returns the method, the schema and the budget of a saved model."""
    if schema is not None or settings:
        raise OptionError(
            f"{folder} is a model, which has its own schema and settings; leave "
            "out those that were given."
        )
    certificate = verify_model(folder).certificate
    if "schema" not in certificate.public:
        raise ModelError(
            f"{folder}: the certificate names no schema, so that no records can be made up for it."
        )
    names = "epsilon", "delta", "adjacency", "unit", "contributions"
    budget = Budget(**{name: getattr(certificate, name) for name in names})
    schema_json = certificate.public["schema"]
    kind: type[AnySchema] = LinkedSchema if "tables" in schema_json else Schema
    return method_of(certificate), kind.from_json(schema_json), budget


def _made_up(files: Collection[str], schema: AnySchema, folder: Path) -> dict[str, Any]:
    """Returns settings that point to public records and a decoder, made up and written into `folder`."""
    settings: dict[str, Any] = {}
    if "public" in files and isinstance(schema, Schema):
        import pyarrow.parquet as pq

        path = folder / "public.parquet"
        pq.write_table(decode(candidates(schema, 200, seed=1), schema), path)
        settings["public"] = str(path)
    if "decoder" in files:
        from noisegate_images.networks.decoder import (
            DecoderDesign,
            build_decoder,
            decoder_bytes,
        )
        from noisegate_images.networks.encoder import SHIPPED_SHA256

        assert IMAGES.images is not None
        design = DecoderDesign(
            shape=IMAGES.images.shape,
            features=144,
            latent=2,
            channels=(4, 2),
            encoder=SHIPPED_SHA256,
            layer="last",
        )
        path = folder / "decoder.safetensors"
        path.write_bytes(decoder_bytes(build_decoder(design, seed=0)))
        settings["decoder"] = str(path)
    return settings


@dataclass(frozen=True, kw_only=True)
class Worlds:
    """World 0 holds some records and maybe an old one; world 1 holds a new one in its place, or beside them.

    Each part is one row. Old and new occur `contributions` times: they are whole units.
    """

    schema: Schema
    others: EncodedTable
    old: EncodedTable | None
    new: EncodedTable
    contributions: int | None

    @classmethod
    def of(
        cls,
        schema: Schema,
        made_up: EncodedTable,
        chosen: tuple[int, int],
        budget: Budget,
    ) -> Worlds:
        """Returns those of two chosen records: under add-remove the first one is in both, else in world 0 alone."""
        first, second = (made_up.rows(slice(row, row + 1)) for row in chosen)
        others = first
        old = None
        if budget.adjacency is Adjacency.REPLACE_ONE:
            third = next(row for row in range(len(made_up)) if row not in chosen)
            others = made_up.rows(slice(third, third + 1))
            old = first
        return cls(
            schema=schema,
            others=others,
            old=old,
            new=second,
            contributions=budget.contributions,
        )

    @property
    def units(self) -> int:
        """How many records there are in world 1."""
        return len(self.records(1))

    @property
    def singles(self) -> EncodedTable:
        """The record of both worlds, the old one if any, and the new one."""
        return EncodedTable.concatenate(
            [part for part in (self.others, self.old, self.new) if part is not None]
        )

    def records(self, world: int) -> EncodedTable:
        """Returns the records of a world, the own ones last."""
        own = self.new if world else self.old
        copies = [] if own is None else [own] * (self.contributions or 1)
        return EncodedTable.concatenate([self.others, *copies])

    def table(self, world: int) -> pa.Table:
        """Returns the records of a world as a private table, with a column of units if there are any."""
        table = decode(self.records(world), self.schema)
        if self.contributions is None:
            return table
        units = np.minimum(np.arange(len(table)), len(self.others))
        return table.append_column(UNIT, pa.array(units))


def candidates(schema: Schema, count: int, seed: int = 0) -> EncodedTable:
    """Returns `count` simulated records that the schema allows, from which the worst ones are chosen."""
    random = np.random.default_rng(seed)
    allowed: list[EncodedTable] = []
    for _ in range(_TRIES):
        # Written and read, so that positions are those that values have.
        table = decode(made_up_records(schema.layout, count, random), schema)
        records = next(iter(TableSource(table, schema).batches()))
        allowed.append(records.rows(~schema.broken(records)))
        if sum(map(len, allowed)) >= count:
            return EncodedTable.concatenate(allowed).rows(slice(0, count))
    raise OptionError(
        "the constraints of the schema leave hardly any made-up record; audit it without them."
    )


@dataclass(frozen=True, kw_only=True)
class FamilyWorlds:
    """World 0 holds one family, `others`; world 1 holds a `new` one beside it."""

    schema: LinkedSchema
    others: Family
    new: Family
    units: ClassVar[int] = 2

    @property
    def singles(self) -> EncodedTable:
        """None: there are no steps that sample records."""
        return EncodedTable(np.zeros((0, 0)), np.zeros((0, 0), dtype=np.int32))

    def records(self, world: int) -> Family:
        """Returns the tables of a world."""
        if not world:
            return self.others
        return {
            name: pa.concat_tables([self.others[name], self.new[name]])
            for name in self.schema.names
        }

    table = records


def made_up_family(schema: LinkedSchema, number: int) -> Family:
    """Returns a made-up family that keeps to the rules of the schema; its number is its seed, and starts its keys."""
    root = schema.root
    rows: dict[str, Rows] = {root.name: candidates(root.schema, 1, seed=number)}
    table = decode(rows[root.name], root.schema)
    tables = {root.name: with_keys(root, table, np.array([f"{number}"]))}
    for link in schema.links:
        child = link.child
        parents = rows[link.parent.name]
        child_counts = (1, 0, 2, child.most or 1, 3 * (child.most or 1))
        child_count = child_counts[number % len(child_counts)]
        parent_rows = np.repeat(np.arange(len(parents)), child_count)
        count = len(parent_rows)
        children: Rows = candidates(child.schema, max(count, 1), seed=number)
        children = children.rows(slice(0, count))
        # A child that breaks a relation with its parent becomes one that keeps to it.
        beside = parents.rows(parent_rows)
        children, _ = link.restore(beside, link.measure(beside, children))
        is_allowed = ~link.broken(beside, children)
        parent_rows = parent_rows[is_allowed]
        rows[child.name] = children.rows(is_allowed)
        keys = [f"{number}.{index}" for index in range(len(parent_rows))]
        parent_keys = (
            tables[link.parent.name].take(parent_rows).select([str(link.parent.key)])
        )
        tables[child.name] = with_keys(
            child,
            decode(rows[child.name], child.schema),
            np.array(keys, dtype=str),
            parent_keys,
        )
    return tables
