"""What the commands do, as functions: see `fewpass` for the list."""
