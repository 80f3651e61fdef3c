"""PyTorch's older path of the profiler: `dynajit.profiler` says what the names mean."""

from dynajit.core.process import late
from dynajit.profiler import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    ProfilerAction,
    ProfilerActivity,
    emit_nvtx,
    kineto_available,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
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
