"""What comparisons with PyTorch share: its values here, and where the two differ on purpose."""
