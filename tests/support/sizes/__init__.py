"""Calls whose results depend on sizes."""
