"""Programs that run: with libraries, with NumPy alone, and with every kernel checked."""
