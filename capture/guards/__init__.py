"""Guards: what a compiled region relies on."""
