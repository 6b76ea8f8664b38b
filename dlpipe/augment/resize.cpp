#include "dlpipe/augment/resize.h"

#include "dlpipe/augment/resize_axis.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

ResizeGeometry whole_resize(int width, int height, int out_width, int out_height) {
  return {width, height, {0, 0, width, height}, out_width, out_height, {0, 0, out_width, out_height}};
}

Region resize_support(const ResizeGeometry& g) {
  const ResizeAxis across = ResizeAxis::horizontal(g);
  const ResizeAxis down = ResizeAxis::vertical(g);
  const int x = across.begin(g.window.x);
  const int y = down.begin(g.window.y);
  return {x, y, across.end(g.window.x + g.window.width - 1) - x,
          down.end(g.window.y + g.window.height - 1) - y};
}

Status resize(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out, bool mirror,
              std::vector<std::byte>& work) {
  (void)work;
  return resize_scalar(geometry, source, out, mirror);
}

}  // namespace dlpipe::augment
