"""Spans: the tasks of walks and reductions, over some windows or chunks each."""
