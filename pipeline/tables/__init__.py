"""Tables: files of any format to rows of numbers in a data set."""
