// The two axes of a resize. Their weights stand in base/resize_axis.h.
#pragma once

#include "dlpipe/augment/resize.h"
#include "dlpipe/base/resize_axis.h"

namespace dlpipe::augment {

inline ResizeAxis horizontal_axis(const ResizeGeometry& g) {
  return {g.source_width, g.box.x, g.box.width, g.out_width};
}
inline ResizeAxis vertical_axis(const ResizeGeometry& g) {
  return {g.source_height, g.box.y, g.box.height, g.out_height};
}
/// Of the whole source and output, not of box and window.
inline bool is_vertical_first(const ResizeGeometry& g) {
  return dlpipe::is_vertical_first(g.source_width, g.source_height, g.out_width, g.out_height);
}

}  // namespace dlpipe::augment
