"""The kinds of query that the gate answers, one file each."""
