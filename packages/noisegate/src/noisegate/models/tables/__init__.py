"""The default for tables, from the design of its queries to the labels of its records."""
