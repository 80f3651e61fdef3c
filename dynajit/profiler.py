"""Profiles by PyTorch's path; defined in `autograd.profiler`."""

from dynajit.autograd.profiler import (
    NOT_MEASURED,
    ProfilerAction,
    ProfilerActivity,
    emit_nvtx,
    kineto_available,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)
from dynajit.core.process import late

__all__ = [
    "NOT_MEASURED",
    "ProfilerAction",
    "ProfilerActivity",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]

late.show(__name__)
