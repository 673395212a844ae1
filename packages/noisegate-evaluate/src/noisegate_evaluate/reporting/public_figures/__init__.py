"""The figures of the public page: each is one file, with its data, its words and its template.

A figure is an object of `noisegate_evaluate.reporting.figure.Figure`. It is found in
this folder, or by an entry point of an installed package::

    [project.entry-points."noisegate.public_figures"]
    example = "their_package.module:EXAMPLE"

In their order: `promise`, `images`, `changes`, `rules`, `columns`, `population`,
`links`, and `knowledge`.
"""
