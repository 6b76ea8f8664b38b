"""Writes ONNX models as bytes: the protocol buffer ModelProto, as far as `dlpipe.capture` needs it, without the package onnx.

Field numbers are those of onnx.proto (github.com/onnx/onnx). Tensors are raw bytes, little endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

FLOAT, INT64 = 1, 7  # TensorProto.DataType
_FLOAT, _INT, _STRING, _FLOATS, _INTS = 1, 2, 3, 6, 7  # AttributeProto.AttributeType


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # as int64 of a protocol buffer: two's complement
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _integer(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: Any) -> bytes:
    out = _bytes(1, name)
    if isinstance(value, float):
        return out + _varint(2 << 3 | 5) + struct.pack("<f", value) + _integer(20, _FLOAT)
    if isinstance(value, int):
        return out + _integer(3, value) + _integer(20, _INT)
    if isinstance(value, str):
        return out + _bytes(4, value) + _integer(20, _STRING)
    if all(isinstance(one, int) for one in value):
        return out + b"".join(_integer(8, one) for one in value) + _integer(20, _INTS)
    return out + b"".join(_varint(7 << 3 | 5) + struct.pack("<f", one) for one in value) + _integer(20, _FLOATS)


def node(op: str, inputs: Iterable[str], outputs: Iterable[str], attributes: dict[str, Any], domain: str = "", name: str = "") -> bytes:
    """A NodeProto. Attributes are an int, a float, a text, or a list of ints or floats."""
    out = b"".join(_bytes(1, one) for one in inputs) + b"".join(_bytes(2, one) for one in outputs)
    out += (_bytes(3, name) if name else b"") + _bytes(4, op)
    out += b"".join(_bytes(5, _attribute(name, value)) for name, value in attributes.items())
    return out + (_bytes(7, domain) if domain else b"")


def tensor(name: str, kind: int, sizes: Sequence[int], data: bytes) -> bytes:
    """A TensorProto; `kind` is FLOAT or INT64."""
    dims = b"".join(_integer(1, size) for size in sizes)
    return dims + _integer(2, kind) + _bytes(8, name) + _bytes(9, data)


def value_info(name: str, kind: int, sizes: Sequence[int | str]) -> bytes:
    """A ValueInfoProto. A size that is a text is a dimension of that name."""
    dims = b"".join(_bytes(1, _bytes(2, one) if isinstance(one, str) else _integer(1, one)) for one in sizes)
    return _bytes(1, name) + _bytes(2, _bytes(1, _integer(1, kind) + _bytes(2, dims)))


def model(
    name: str,
    nodes: Iterable[bytes],
    initializers: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    opsets: dict[str, int],
    producer: str,
) -> bytes:
    """A ModelProto of what the functions above return."""
    graph = b"".join(_bytes(1, one) for one in nodes) + _bytes(2, name)
    graph += b"".join(_bytes(5, one) for one in initializers)
    graph += b"".join(_bytes(11, one) for one in inputs) + b"".join(_bytes(12, one) for one in outputs)
    opset_ids = b"".join(_bytes(8, _bytes(1, domain) + _integer(2, version)) for domain, version in opsets.items())
    return _integer(1, 8) + _bytes(2, producer) + opset_ids + _bytes(7, graph)
