"""Drafts of a schema, for its owner to read and correct: from records, which stay with the owner, or a dictionary.

- `init`: the verb `schema init`.
- `draft`: columns from records; `numbers` and `formats` draft columns of numbers and of
  text with a form, `rules` the rules between columns, `linked` several tables.
- `drafted`: a drafted column with the reason for each choice.
- `dictionaries`: columns from a data dictionary.

A draft may quote values of the records. It is not differentially private, and says so.
"""
