"""What can be set: models for the command line, TOML files, flows and Python."""
