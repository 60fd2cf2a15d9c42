"""A page about learning, on Dask's dashboard or on its own: read from the run folder."""
