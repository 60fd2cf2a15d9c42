"""Tests with a Prefect server: as a package they have one, which ends with the last of them."""
