#include "dlpipe/io/data/sources/arrays/numpy_pictures.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/raw.h"

namespace dlpipe::data::numpy {

Result<PictureForm> picture_form(const NpyArray& array) {
  const auto no = [&](std::string_view what) {
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] the array ", printable(array.name()), " is ", array.form(), "; ", what));
  };
  const NpyHeader& header = array.header();
  if (header.kind != 'u' || header.item_bytes != 1)
    return no(header.kind == 'f'
                  ? "pictures are uint8: save (255 * x).round().astype('uint8') if it holds 0 to 1"
                  : "pictures are uint8: save x.astype('uint8') if it holds 0 to 255");
  const std::vector<uint64_t>& shape = header.shape;
  constexpr uint64_t kMostSide = 65'535;
  const auto is_colour = [](uint64_t channels) { return channels == 1 || channels == 3; };
  if (shape.size() != 3 && shape.size() != 4) return no("pictures are [N,H,W], [N,H,W,C] or [N,C,H,W]");
  if (std::any_of(shape.begin() + 1, shape.end(), [](uint64_t side) { return side > kMostSide; }))
    return no(concat("pictures have at most ", kMostSide, " pixels a side"));
  PictureForm form;
  form.channels_first = shape.size() == 4 && !is_colour(shape[3]) && is_colour(shape[1]);
  if (shape.size() == 4 && !is_colour(shape[3]) && !form.channels_first)
    return no("C is 1 or 3, grey or red, green, blue");
  const size_t rows = form.channels_first ? 2 : 1;
  form.height = static_cast<int>(shape[rows]);
  form.width = static_cast<int>(shape[rows + 1]);
  if (shape.size() == 4) form.channels = static_cast<int>(shape[form.channels_first ? 1 : 3]);
  return form;
}

std::vector<std::byte> raw_picture(const PictureForm& form, std::span<const std::byte> bytes) {
  const auto* pixels = reinterpret_cast<const uint8_t*>(bytes.data());
  std::vector<uint8_t> interleaved;
  if (form.channels_first && form.channels > 1) {
    const size_t plane = static_cast<size_t>(form.height) * static_cast<size_t>(form.width);
    const auto channels = static_cast<size_t>(form.channels);
    interleaved.resize(bytes.size());
    for (size_t i = 0; i < plane; ++i) {
      for (size_t c = 0; c < channels; ++c) interleaved[channels * i + c] = pixels[c * plane + i];
    }
    pixels = interleaved.data();
  }
  return encode_raw({pixels, form.width, form.height, form.channels, ptrdiff_t{form.width} * form.channels});
}

}  // namespace dlpipe::data::numpy
