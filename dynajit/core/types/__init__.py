"""What a value is, without its elements: dtypes, devices, sizes, layouts, types."""
