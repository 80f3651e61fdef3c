"""The search for NaN in gradients, by PyTorch's path; defined in `dynajit.eager.tape.anomaly`."""

from dynajit.eager.tape.anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
