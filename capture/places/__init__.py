"""Sources: where captured values come from, and how new code loads them."""
