"""What a model is worth, and what it says of new rows."""
