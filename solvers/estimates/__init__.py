"""Estimates before training: smoothness, spectrum, expected passes."""
