"""What is known before training: smoothness, spectrum, expected passes."""
