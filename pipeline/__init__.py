"""Streaming, training, certificates, snapshots and estimators; users import from `fewpass`."""
