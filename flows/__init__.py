"""The `fewpass` command and, later, the Prefect flows: what to run, when, with which settings."""
