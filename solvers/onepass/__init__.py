"""One pass: several learners over the same rows, the best of them by their progressive losses."""
