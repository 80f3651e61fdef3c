"""The page of an explanation or a report: sources, pictures of graphs, and the data between."""
