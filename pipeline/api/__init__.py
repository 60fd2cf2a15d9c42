"""The commands as functions: see `fewpass` for the list."""
