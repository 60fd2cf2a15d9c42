"""A run afterwards: report, model card, pictures, notebooks."""
