"""How calls of library functions are read: arguments, autocast, `out=`, overloads."""
