"""Tensors that hold a batch of samples and look like one of them: what `vmap` runs functions on."""
