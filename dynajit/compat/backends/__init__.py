"""Switches of backends that do something, or remember what they were set to."""
