"""Stochastic gradient descent, averaged (Xu 2011)."""
