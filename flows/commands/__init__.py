"""The commands and their words, in the groups in which the help lists them.

Each command's work is in a module of its own, imported only when the command runs: help and
refusals need not wait for numba and Dask.
"""
