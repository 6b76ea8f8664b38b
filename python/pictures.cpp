#include "dlpipe/python/pictures.h"

#include <nanobind/ndarray.h>

#include "dlpipe/io/data/codec/raw.h"

namespace nb = nanobind;

namespace dlpipe::python {

using Pixels = nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

std::vector<std::byte> bytes_of(nb::handle object) {
  const auto bytes = nb::cast<nb::bytes>(object);
  const auto* first = static_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

std::vector<std::byte> picture_bytes(nb::handle value) {
  Pixels pixels;
  if (!nb::try_cast(value, pixels)) return bytes_of(value);
  const auto height = static_cast<int>(pixels.shape(0));
  const auto width = static_cast<int>(pixels.shape(1));
  const auto channels = static_cast<int>(pixels.shape(2));
  return data::encode_raw({pixels.data(), width, height, channels, ptrdiff_t{width} * channels});
}

}  // namespace dlpipe::python
