#include "dlpipe/augment/resize.h"

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/resize_passes.h"

namespace dlpipe::augment {

ResizeGeometry whole_resize(int width, int height, int out_width, int out_height) {
  return {width, height, {0, 0, width, height}, out_width, out_height, {0, 0, out_width, out_height}};
}

Region resize_support(const ResizeGeometry& g) {
  return axes_support(horizontal_axis(g), vertical_axis(g), g.window);
}

static bool is_copy(const ResizeGeometry& g) {
  return horizontal_axis(g).is_identity() && vertical_axis(g).is_identity();
}

size_t resize_work_bytes(const ResizeGeometry& g, int channels) {
  if (is_copy(g) || !has_fast_resize(channels)) return 0;
  return resize_bytes(horizontal_axis(g), vertical_axis(g), g, channels);
}

void resize(const ResizeGeometry& g, const ConstImageView& source, const ImageView& out, bool mirror,
            std::vector<std::byte>& work) {
  if (is_copy(g)) return copy_image(source, out, mirror);
  if (!has_fast_resize(out.channels)) return resize_scalar(g, source, out, mirror);
  resize_by(horizontal_axis(g), vertical_axis(g), g, source, out, mirror, work);
}

}  // namespace dlpipe::augment
