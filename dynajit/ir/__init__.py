"""Layer 2: the graph, its passes, derivatives and partition.

`graph` defines it, `pipeline` lists what is done to it, `autodiff` and `partition` make a forward
and a backward graph of it. Imports `core` and `ops`.
"""
