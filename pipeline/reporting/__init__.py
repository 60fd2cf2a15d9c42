"""What is told of a run afterwards: report, model card, pictures, times."""
