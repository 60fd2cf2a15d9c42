"""Models outside of a training: as estimators, exported, refreshed and published."""
