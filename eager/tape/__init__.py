"""The tape: how a tensor was made, and what backward needs of it."""
