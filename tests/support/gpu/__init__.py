"""What tests of GPUs share without one: graphs, and a driver's stand-in."""
