"""Scores as sums of terms, each a function of a column of the source, or of two."""
