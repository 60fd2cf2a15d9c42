"""New generations of a model, evaluated before publication."""
