"""What holds for a thread: recorded gradients, autocast, defaults, random numbers."""
