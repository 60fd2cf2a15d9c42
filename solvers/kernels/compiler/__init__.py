"""Numba: all that imports it, and nothing does before a kernel is compiled."""
