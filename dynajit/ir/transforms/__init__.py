"""What graphs become: the same computation for a batch of samples."""
