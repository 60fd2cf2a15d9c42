"""Models held in memory: single rows in less than a millisecond, batches, and what they are."""
