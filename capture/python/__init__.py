"""What Python's operations do to symbolic values."""
