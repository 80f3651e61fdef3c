"""Keys and values that processes share: `store.py` is what programs use, the others keep them.

Contract: nothing here knows of groups; nothing that comes from another process is run.
"""
