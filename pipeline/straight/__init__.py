"""One pass straight from a source: rows are learnt while they are read, and stored nowhere."""
