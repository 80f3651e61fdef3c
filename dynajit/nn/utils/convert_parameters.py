"""Parameters as one vector, by PyTorch's path; defined in `nn.utils.gradients_and_vectors`."""

from dynajit.nn.utils.gradients_and_vectors import parameters_to_vector, vector_to_parameters

__all__ = ["parameters_to_vector", "vector_to_parameters"]
