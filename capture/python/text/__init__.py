"""Text: what is made of values, and what programs write."""
