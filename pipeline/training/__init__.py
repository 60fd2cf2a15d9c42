"""A plan, the run that carries it out, and the model that comes of it."""
