"""The `fewpass` command and the Prefect flows: what to run, when, with which settings."""
