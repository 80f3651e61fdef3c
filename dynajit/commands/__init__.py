"""What `python -m dynajit` runs."""
