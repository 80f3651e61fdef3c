"""Methods that eager tensors and graph values share."""
