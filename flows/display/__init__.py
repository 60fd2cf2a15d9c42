"""What a terminal shows of a training or an ingest."""
