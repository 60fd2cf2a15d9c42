"""Rows and methods brought together, out of core and in parallel on Dask."""
