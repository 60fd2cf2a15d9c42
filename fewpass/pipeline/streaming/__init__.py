"""The two ways over the data: windows, the thread that reads them, walks and reductions."""
