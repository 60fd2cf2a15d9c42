"""What tests and benchmarks share: plain references, small data, programs to start."""
