"""Columns of tables as people have them (words, dates, gaps, heavy tails) as sparse numbers."""
