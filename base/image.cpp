#include "dlpipe/base/image.h"

#include <cstring>

namespace dlpipe {

Region stored_region(const Region& seen, int seen_width, int seen_height, Orientation orientation) {
  Region stored = seen;
  int width = seen_width;
  int height = seen_height;
  if (swaps_axes(orientation)) {
    stored = {seen.y, seen.x, seen.height, seen.width};
    width = seen_height;
    height = seen_width;
  }
  if (mirrors_stored_x(orientation)) stored.x = width - stored.x - stored.width;
  if (mirrors_stored_y(orientation)) stored.y = height - stored.y - stored.height;
  return stored;
}

void orient_image(const ConstImageView& stored, Orientation orientation, const ImageView& seen) {
  const int channels = stored.channels;
  const bool swap = swaps_axes(orientation);
  const bool flip_x = mirrors_stored_x(orientation);
  const bool flip_y = mirrors_stored_y(orientation);
  for (int y = 0; y < stored.height; ++y) {
    const int to_y = flip_y ? stored.height - 1 - y : y;
    const uint8_t* from = stored.row(y);
    for (int x = 0; x < stored.width; ++x, from += channels) {
      const int to_x = flip_x ? stored.width - 1 - x : x;
      uint8_t* to =
          swap ? seen.row(to_x) + ptrdiff_t{to_y} * channels : seen.row(to_y) + ptrdiff_t{to_x} * channels;
      std::memcpy(to, from, static_cast<size_t>(channels));
    }
  }
}

}  // namespace dlpipe
