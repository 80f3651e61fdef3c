"""The search for NaN in gradients, by PyTorch's path; defined in `dynajit.eager.anomaly`."""

from dynajit.eager.anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
