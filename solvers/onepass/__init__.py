"""One pass with several learners; the best one is chosen by progressive losses."""
