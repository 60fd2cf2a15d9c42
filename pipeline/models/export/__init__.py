"""Models for other programs: a file by its suffix, or scikit-learn's own classes."""
