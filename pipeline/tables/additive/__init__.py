"""Fitting additive models' encodings to a sample: knots, pairs, and the form by held-out rows."""
