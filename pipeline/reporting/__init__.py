"""A run afterwards: report, page, model card, notebooks."""
