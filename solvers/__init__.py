"""Methods: numbers in, a better state out; no input, no output, no scheduling."""
