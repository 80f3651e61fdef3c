"""Symbolic values: what captured code computes with."""
