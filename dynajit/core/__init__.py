"""Layer 0: errors, configuration, dtypes, devices, symbolic integers, tensor types, pytrees.

Imports nothing of dynajit. Every other layer builds on the names here.
"""
