"""Displays of a training or an ingest on a terminal."""
