"""An attack on every method by its own house: lower bounds on ε, beside the ε that is claimed."""
