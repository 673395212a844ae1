"""Charts as inline SVG with a table of their numbers beside them: no script, no file, nothing that is fetched."""
