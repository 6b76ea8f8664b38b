#include "dlpipe/python/pictures.h"

#include <nanobind/ndarray.h>

#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/codec/raw.h"

namespace nb = nanobind;

namespace dlpipe::python {

using Pixels = nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

std::vector<std::byte> bytes_of(nb::handle object) {
  const auto bytes = nb::cast<nb::bytes>(object);
  const auto* first = static_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

static ConstImageView view_of(const Pixels& pixels) {
  const auto height = static_cast<int>(pixels.shape(0));
  const auto width = static_cast<int>(pixels.shape(1));
  const auto channels = static_cast<int>(pixels.shape(2));
  return {pixels.data(), width, height, channels, ptrdiff_t{width} * channels};
}

std::vector<std::byte> picture_bytes(nb::handle value) {
  Pixels pixels;
  return nb::try_cast(value, pixels) ? data::encode_raw(view_of(pixels)) : bytes_of(value);
}

std::vector<std::byte> mask_bytes(nb::handle value) {
  Pixels pixels;
  return nb::try_cast(value, pixels) ? value_or_throw(data::encode_png(view_of(pixels))) : bytes_of(value);
}

}  // namespace dlpipe::python
