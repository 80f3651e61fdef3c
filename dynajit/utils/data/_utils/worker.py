"""What workers of a loader know, by PyTorch's inner path; defined in `utils.data.worker`."""

from dynajit.utils.data.worker import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]
