"""Data sets after their ingest: rows that are appended, and rows that are forgotten."""
