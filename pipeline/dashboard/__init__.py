"""A page about trainings, on Dask's dashboard or on its own: it draws timelines."""
