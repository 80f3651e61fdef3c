"""Functions that arrange, search, gather and scatter, and statistics."""
