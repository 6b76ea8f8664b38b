#include "dlpipe/engine/layers/pool.h"

namespace dlpipe::engine {
namespace {

Pool2dAttrs make_attrs(Size2 kernel, const Pool2dArguments& arguments) {
  Pool2dAttrs attrs;
  attrs.kernel = kernel;
  attrs.stride = arguments.stride.value_or(kernel);
  attrs.padding = arguments.padding;
  attrs.ceil_mode = arguments.ceil_mode;
  attrs.count_include_pad = arguments.count_include_pad;
  return attrs;
}

double window_flops(const Pool2dAttrs& attrs, const TensorSpec& y) {
  return static_cast<double>(attrs.kernel[0]) * attrs.kernel[1] * static_cast<double>(y.shape.elements());
}

}  // namespace

MaxPool2d::MaxPool2d(Size2 kernel, const Pool2dArguments& arguments)
    : attrs_(make_attrs(kernel, arguments)) {}

double MaxPool2d::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  return window_flops(attrs_, y);
}

AvgPool2d::AvgPool2d(Size2 kernel, const Pool2dArguments& arguments)
    : attrs_(make_attrs(kernel, arguments)) {}

double AvgPool2d::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  return window_flops(attrs_, y);
}

double GlobalAvgPool::flops(const TensorSpec& x, const TensorSpec& /*y*/) const {
  return static_cast<double>(x.shape.elements());
}

}  // namespace dlpipe::engine
