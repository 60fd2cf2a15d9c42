"""Estimates before training: smoothness, spectrum."""
