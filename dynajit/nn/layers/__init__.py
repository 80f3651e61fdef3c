"""Layers and losses, by kind; `dynajit.nn` publishes them."""
