"""Models that predict the label of a record, trained on what left the gate. Public side."""
