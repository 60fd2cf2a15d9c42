"""New generations of a model, judged before they are published."""
