"""Benchmarks: ratios measured interleaved in one process. `python -m benchmarks [NAME ...]`."""
