"""What carries arrays between the processes of a group: MPI, NCCL, or nothing where there is one.

Contract: everything above talks to `channel.Channel`; only the modules here import an engine, late.
"""
