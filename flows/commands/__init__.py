"""The commands, a file for each or for a few of a kind: options, words and work.

What a command's work needs is imported when it runs: help and refusals wait for neither numba nor
Dask.
"""
