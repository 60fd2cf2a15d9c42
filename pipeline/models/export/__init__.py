"""Export of models to other programs: by suffix of a file, or as scikit-learn's classes."""
