"""What a fit was asked for; kept beside a training, so that it goes on as it began. Nothing private is in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.errors import ModelError, OptionError

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.methods.catalogue import AnyMethod
    from noisegate.schema import Schema

RUN_FILE = "training.json"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run: method, schema, budget, and where it is booked.

    Attributes:
        method: The method with its settings.
        schema: The columns.
        epsilon: ε of the guarantee.
        delta: δ of the guarantee.
        adjacency: The neighbouring relation, as the option says it.
        records: The number of records as far as the public knows, or None.
        unit: What one record stands for.
        unit_column: Column that says whose record each one is, or None.
        contributions: How many records of a unit are used at most, or None.
        dataset: Data set of the ledger to book on, or None.
        ledger: Place of the ledger, or None for the default one.
        on_error: What happens to images that cannot be read: "refuse" or "skip".
        discovery: Certificate of the discovery of the schema as a JSON object, or None if it was not discovered.
    """

    method: AnyMethod
    schema: Schema
    epsilon: float
    delta: float
    adjacency: str
    records: int | None
    unit: str
    unit_column: str | None
    contributions: int | None
    dataset: str | None
    ledger: str | None
    on_error: str = "refuse"
    discovery: Mapping[str, Any] | None = None

    def gate(self, data: str, *, show_values: bool, progress: Callable[[int], None]) -> Gate:
        """Returns the gate before the records in `data`; nothing is read yet."""
        from noisegate.gate.gate import Gate
        from noisegate.privacy.certificate import Certificate
        from noisegate.privacy.ledger import Ledger

        return Gate(
            data,
            schema=self.schema,
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            records=self.records,
            unit=self.unit,
            unit_column=self.unit_column,
            contributions=self.contributions,
            ledger=Ledger(self.ledger) if self.dataset is not None else None,
            dataset=self.dataset,
            on_error=self.on_error,
            discovery=None if self.discovery is None else Certificate.from_json(self.discovery),
            show_values=show_values,
            progress=progress,
        )

    def write(self, folder: Path) -> None:
        """Writes the run into `folder`; of a ledger in a database not the address, which may hold a password."""
        from noisegate.privacy.ledger_location import locate

        plain = {name: value for name, value in vars(self).items() if name not in ("method", "schema", "ledger")}
        place = locate(self.ledger) if self.dataset is not None else None
        content = {
            "format": FORMAT,
            "method": self.method.name,
            "settings": self.method.to_json(),
            "schema": self.schema.to_json(),
            **plain,
            "ledger": None if place is None or place.path is None else str(place.path),
            "ledger_shown": None if place is None else place.shown,
        }
        (folder / RUN_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path, *, typed: str | None, default: str | None) -> Run:
        """Returns the run that `write` wrote.

        Args:
            folder: Where it lies.
            typed: Place of the ledger that goes before the one that was kept, or None.
            default: Place of the ledger if none was kept, or None.

        Raises:
            ModelError: if the file is missing or broken.
            OptionError: if the address of the ledger was not kept, and is not given.
        """
        from noisegate.methods.catalogue import method_from
        from noisegate.schema import Schema

        path = folder / RUN_FILE
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            shown, kept = content.pop("ledger_shown"), content.pop("ledger")
            method = method_from(content.pop("method"), content.pop("settings"))
            schema = Schema.from_json(content.pop("schema"))
            run = cls(method=method, schema=schema, ledger=typed or kept or default, **content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(
                f"{path} is broken: {type(error).__name__}. The training cannot go on, and stays spent; remove its "
                "folder to begin anew."
            ) from None
        if shown is not None and run.ledger is None:
            raise OptionError(
                f"--ledger is missing: the run is booked on {shown}, whose address is not kept, as it may hold a "
                "password."
            )
        return run

    def check(self, given: Mapping[str, Any]) -> None:
        """Checks options that are given to go on with this run.

        Args:
            given: What was typed, by name of the option: the attributes of this class, with "method" by its name,
                "schema" as a file, "images" as the schema that the options of images describe, and "settings" by name
                of the setting.

        Raises:
            OptionError: if one of them differs.
        """
        from noisegate.schema import Schema

        settings = self.method.to_json()
        for name, value in given.items():
            if name == "settings":
                for setting, wanted in value.items():
                    _same(f"--set {setting}", wanted, settings.get(setting))
            elif name in ("seed", "public"):
                _same(f"--{name}", value, settings.get(name))
            elif name == "method":
                _same("--method", value, self.method.name)
            elif name == "schema":
                self._same_schema(f"--schema {value}", Schema.from_toml(value))
            elif name == "images":
                self._same_schema("What --size, --classes and the like describe", value)
            elif name in vars(self) and name != "ledger":
                _same(f"--{name.replace('_', '-')}", value, getattr(self, name))

    def _same_schema(self, what: str, given: Schema) -> None:
        if given.digest() != self.schema.digest():
            raise OptionError(f"{what} differs from the schema that the run began with. {_CURE}")


_CURE = "Leave the option out: a run goes on as it began. Another run goes into another --out, and costs again."


def _same(option: str, given: Any, kept: Any) -> None:
    if given != kept:
        raise OptionError(f"{option} {given}: the run began with {kept}. {_CURE}")
