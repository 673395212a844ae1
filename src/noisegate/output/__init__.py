"""Files of synthetic images, written whole or not at all. Public side: it knows the schema, and nothing else."""
