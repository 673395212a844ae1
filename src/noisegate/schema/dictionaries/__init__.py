"""Data dictionaries, which are public knowledge, as the draft of a schema: no record is read."""

from noisegate.schema.dictionaries.reading import Dictionary, read_dictionary

__all__ = ["Dictionary", "read_dictionary"]
