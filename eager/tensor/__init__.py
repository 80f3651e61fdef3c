"""The class `Tensor`: what it is made from, and how it prints."""
