"""A run: what its folder holds, its lease, log and snapshots, and what it asks of an engine."""
