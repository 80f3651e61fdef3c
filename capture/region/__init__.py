"""What one capture produces, and how values are made again at its end."""
