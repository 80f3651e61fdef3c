"""Layer 4: capture of Python functions: bytecode to graph, guards, effects and new bytecode."""
