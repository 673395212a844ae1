"""Models of linked tables: records of one table that refer to those of another by key.

A person has visits, and a visit has diagnoses. A link is a parent's table with a
child's; tables and links form a tree::

    people ──► visits ──► diagnoses          LinkedModel: all tables, with keys
           │         ╰─ a LinkModel ─╯         ├─ LinkModel: one link, encoded records
           ╰─ a LinkModel ─╯                   │    ╰─ Chain: one link, in cells
                                               ╰─ ...

Sampling draws records of the first table, then the children of each record, and so on
down the tree. From the public side inwards:

- `model`: the class `LinkedModel`, which samples tables and is saved and loaded.
- `link_model`: parents and children of one link, with the rules that they keep to.
- `chain`: the number of a parent's children, and one child after the other.
- `fit`: the queries about each link, and the fit of its model to their answers.
"""
