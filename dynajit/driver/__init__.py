"""From a captured graph to what runs it: `compile` and its kin, the backend, launches, files."""
