"""Rows of a data set as tables again: with names, and values as they came where those are known."""
