"""Eager rows in C."""
