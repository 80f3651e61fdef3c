"""From a captured region to the code object that runs instead."""
