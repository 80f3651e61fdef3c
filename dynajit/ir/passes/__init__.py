"""Graph passes: one file and one pure function `Graph -> Graph` each; `ir.pipeline` lists them.

Every pass keeps the number and order of inputs and outputs and what the outputs are. A pass says
in its docstring what it requires and ensures.
"""
