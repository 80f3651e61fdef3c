"""The loop IR: scalar expressions, kernels, and how row bodies become expressions."""
