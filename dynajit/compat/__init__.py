"""PyTorch's import paths: one table of them (`names`), one finder that makes the modules, and what
little code stands behind them.
"""
