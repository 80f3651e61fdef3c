"""From a missed call to a published entry: one compile, and what is kept of it."""
