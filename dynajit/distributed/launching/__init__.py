"""Programs on several processes: started on MPI's `mpiexec`, watched, and ended together.

Contract: `run.py` and `launch.py` beside this room are what programs call, `compat/multiprocessing`
calls `spawned.py`. Nothing here computes with tensors. Page: docs/distributed.md.
"""
