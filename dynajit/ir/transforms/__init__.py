"""What recorded nodes become: the same for a batch of samples, or with tangents beside them."""
