"""How long something takes: interleaved timing, the rates of this machine, and `dj.bench`.

Contract: `timing` and `machine` are what `python -m benchmarks` measures with, so that its figures
and those of `bench` can be compared. Nothing here is loaded by `import dynajit`.
"""
