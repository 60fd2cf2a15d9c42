"""A source that is read once, as training takes it: buffers of rows, nothing stored."""
