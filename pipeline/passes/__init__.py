"""Passes over rows: walks and sums as spans, run on threads of this process or on Dask."""
