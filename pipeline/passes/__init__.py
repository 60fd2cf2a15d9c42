"""Execution of tasks: on threads of this process, or on Dask."""
