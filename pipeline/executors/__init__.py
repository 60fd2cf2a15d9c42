"""Where spans run: threads of this process, or Dask."""
