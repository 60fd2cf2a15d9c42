"""What every step is made of: rows by layout, compilation, prefetching, scores."""
