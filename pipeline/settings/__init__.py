"""Settings: models for the command line, TOML files, flows and Python."""
