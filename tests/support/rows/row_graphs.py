"""A row of the op table as a graph with a node per conformance sample.

Placeholders carry the real strides; numbers are literals in one half of the nodes and run-time
scalars in the other.
"""

from typing import Any

import numpy as np

from dynajit.core.errors import DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph
from dynajit.ops import Op
from tests.support.rows.samples import Sample, all_rows, has_samples, samples
from tests.support.rows.tape import type_of

ROWS = [op for op in all_rows() if has_samples(op)]
OTHER_DTYPES = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float64")


def accepted(op: Op, dtype: DType) -> tuple[Sample, ...]:
    """The samples, or none where the row refuses the dtype."""
    try:
        drawn = samples(op, dtype)
        for sample in drawn:
            op.infer(*map(type_of, sample.inputs), **sample.attributes)
    except DTypeError:
        return ()
    return drawn


def placeholder_type(array: np.ndarray) -> TensorType:
    """The type with the array's own strides."""
    strides = tuple(step // array.itemsize for step in array.strides)
    return TensorType(array.shape, dtypes.from_numpy(array.dtype), strides=strides)


def graph_of(op: Op, drawn: tuple[Sample, ...]) -> tuple[Graph, list[Any]]:
    """One node per sample, and the inputs."""
    builder = Builder(op.name)
    inputs: list[Any] = []
    outputs = []
    for position, sample in enumerate(drawn):
        operands = []
        for operand in sample.inputs:
            if isinstance(operand, np.ndarray):
                operands.append(builder.placeholder("x", placeholder_type(operand)))
                inputs.append(operand)
            elif operand is not None and position % 2:
                operands.append(builder.placeholder("number", type_of(operand)))
                inputs.append(operand)
            else:
                operands.append(operand)
        outputs.append(builder.call(op, operands, sample.attributes))
    return builder.finish(outputs), inputs
