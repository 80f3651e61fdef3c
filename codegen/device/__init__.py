"""Programs on a GPU: the driver, images of kernels, launch plans, tuning."""
