// Pictures that Python code has, as the bytes that the library takes.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <vector>

namespace dlpipe::python {

/// What dlpipe/pictures.py answers: bytes of a file as they are; pixels u8 [height, width, 1 or 3], C-contiguous, as a raw
/// picture (io/data/codec/raw.h).
std::vector<std::byte> picture_bytes(nanobind::handle value);
/// The same of a mask, whose pixels [height, width, 1] become a PNG.
std::vector<std::byte> mask_bytes(nanobind::handle value);
std::vector<std::byte> bytes_of(nanobind::handle bytes);

}  // namespace dlpipe::python
