"""A linear map as an ONNX graph, alone or behind an encoder."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.atomic import atomic_write
from nearkin.validation.extras import missing_extra

Array = NDArray[np.float32]

_OPSET, _IR = 17, 8  # onnxruntime reads these since 2022


def write_linear(
    path: str | os.PathLike[str],
    matrix: Array,
    offset: Array,
    unit_length: bool,
    encoder: str | os.PathLike[str] | None = None,
) -> None:
    """Write ``query @ matrix + offset``, the query scaled to unit length first if asked."""
    onnx = _onnx()
    model = _linear(onnx, matrix, offset, unit_length)
    if encoder is not None:
        model = _behind(onnx, onnx.load(os.fspath(encoder)), model, len(matrix))
    onnx.checker.check_model(model)
    with atomic_write(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _onnx() -> Any:
    try:
        import onnx
        import onnx.compose
    except ImportError:
        raise missing_extra("an ONNX file", "onnx", "onnx") from None
    return onnx


def _linear(onnx: Any, matrix: Array, offset: Array, unit_length: bool) -> Any:
    make, numbers = onnx.helper, onnx.TensorProto.FLOAT
    nodes, rows = [], "query"
    if unit_length:
        nodes, rows = [make.make_node("LpNormalization", ["query"], ["unit"], axis=-1, p=2)], "unit"
    nodes += [
        make.make_node("MatMul", [rows, "matrix"], ["product"]),
        make.make_node("Add", ["product", "offset"], ["adapted"]),
    ]
    given, made = (
        make.make_tensor_value_info(name, numbers, ["n", width])
        for name, width in zip(("query", "adapted"), matrix.shape)
    )
    arrays = [onnx.numpy_helper.from_array(matrix, "matrix"),
              onnx.numpy_helper.from_array(offset, "offset")]  # fmt: skip
    graph = make.make_graph(nodes, "adapter", [given], [made], arrays)
    return make.make_model(graph, ir_version=_IR, opset_imports=[make.make_opsetid("", _OPSET)])


def _behind(onnx: Any, encoder: Any, adapter: Any, width: int) -> Any:
    """The encoder's one output, of `width` columns, fed to the adapter."""
    outputs = [output.name for output in encoder.graph.output]
    if len(outputs) != 1:
        raise ValueError(f"encoder has the outputs {', '.join(outputs)}; one is expected")
    shape = encoder.graph.output[0].type.tensor_type.shape.dim
    if len(shape) != 2 or shape[1].dim_value not in (0, width):
        shown = " × ".join(str(dim.dim_value or dim.dim_param or "?") for dim in shape)
        raise ValueError(f"encoder puts out {shown}; n × {width} is expected")
    opset = max(entry.version for entry in encoder.opset_import if entry.domain in ("", "ai.onnx"))
    adapter = onnx.version_converter.convert_version(adapter, opset) if opset != _OPSET else adapter
    adapter = onnx.compose.add_prefix(adapter, "adapter/")
    adapter.ir_version = encoder.ir_version
    return onnx.compose.merge_models(
        encoder, adapter, io_map=[(outputs[0], "adapter/query")], outputs=["adapter/adapted"]
    )
