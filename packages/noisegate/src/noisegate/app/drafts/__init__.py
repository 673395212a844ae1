"""Drafts of a schema, for its owner to read and correct.

They are made from public records, or from a data dictionary::

    records ──► draft ──► columns: booleans, numbers, times, text ──► rules ──┐
                                                                              ▼
    dictionary ──► dictionaries ──► columns, partly open ──────────► drafted file

From the outside inwards:

- `init`: the verb `schema init`.
- `draft`: a table's columns, one by one, and the schema of all of them.
- `linked`, `links`: several tables, and how they hang together.
- `dictionaries`: columns from a data dictionary.
- `identifiers`: columns that name records or persons, which none should learn.
- `mixtures`: text in several notations, which no kind reads.
- `texts`, `formats`, `numbers`, `times`: columns by what their cells hold.
- `records`, `namibia`: rows that are no records, and "NA" that is not missing.
- `limits`, `limit_texts`: numbers beside texts such as "<0.5".
- `stored`: the types and spellings in which a file stores its columns.
- `regularities`: sentinels, steps and atoms of numbers.
- `rules`, `dependencies`: what holds between columns, as constraints and remarks.
- `drafted`: a drafted column with the reason for each choice, and the file.
- `vocabulary.toml`: words by which all of them read names and cells.

A draft quotes values of the records: bounds and levels. It is not differentially
private, and says so.
"""
