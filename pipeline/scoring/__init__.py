"""Evaluation of models, and prediction."""
