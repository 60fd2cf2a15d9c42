"""The kernels of all methods: rows by layout, compilation, prefetching, scores."""
