"""Schemas of tables that are linked by keys.

- `table_schema`: one table of several: its columns, its own key, and the column that
  points to another table.
- `links`: which table points to which, and the order in which they are drawn.
- `schema`: `LinkedSchema`, all tables of one unit of privacy together.
"""
