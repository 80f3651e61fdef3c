"""The rows of the op table, family by family."""
