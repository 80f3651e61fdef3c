"""Tests, and what they share (`tests.support`)."""
