"""Sources -> a shuffled, checksummed data set with statistics."""
