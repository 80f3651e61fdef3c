"""Functions that reduce, scan or sort, and distances of pairs."""
