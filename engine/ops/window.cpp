#include "engine/ops/window.h"

#include "dlpipe/error.h"

namespace dlpipe::engine {

int64_t window_count(int64_t size, int kernel, int stride, int padding, int dilation, bool ceil) {
  const int64_t reach = static_cast<int64_t>(dilation) * (kernel - 1) + 1;
  const int64_t room = size + 2 * static_cast<int64_t>(padding) - reach;
  if (room < 0 && !(ceil && room + stride > 0))
    return 0;  // a window that extends past the right side may still begin inside
  int64_t count = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (count - 1) * stride >= size + padding) --count;
  return count;
}

Conv2dShape conv2d_shape(const Shape& x, const Shape& weight, const Conv2dAttrs& attrs) {
  Conv2dShape shape;
  shape.n = x[0], shape.h = x[1], shape.w = x[2], shape.c = x[3];
  shape.o = weight[0], shape.kh = weight[2], shape.kw = weight[3];
  shape.groups = attrs.groups;
  shape.stride = attrs.stride, shape.padding = attrs.padding, shape.dilation = attrs.dilation;
  const auto count = [&](int axis, int64_t size, int64_t kernel) {
    return window_count(size, static_cast<int>(kernel), attrs.stride[axis], attrs.padding[axis],
                        attrs.dilation[axis], false);
  };
  shape.oh = count(0, shape.h, shape.kh);
  shape.ow = count(1, shape.w, shape.kw);
  return shape;
}

Pool2dShape pool2d_shape(const char* op, const TensorSpec& x, const Pool2dAttrs& attrs) {
  if (x.shape.rank() != 4 || !is_floating(x.dtype)) {
    refuse(op, "expected floating images [N,H,W,C], got ", dtype_name(x.dtype), " ", x.shape.to_string(),
           "; reshape or cast");
  }
  // With padding, windows would fit into an empty image.
  if (x.shape[1] < 1 || x.shape[2] < 1)
    refuse(op, "expected images of at least one pixel, got ", x.shape.to_string());
  for (int axis = 0; axis < 2; ++axis) {
    if (attrs.kernel[axis] < 1 || attrs.stride[axis] < 1) {
      refuse(op, "expected kernel and stride of at least 1, got ", attrs.kernel[axis], " and ",
             attrs.stride[axis]);
    }
    if (attrs.padding[axis] < 0 || attrs.padding[axis] > attrs.kernel[axis] / 2) {
      refuse(op, "expected padding of 0 to half the kernel, ", attrs.kernel[axis] / 2, ", got ",
             attrs.padding[axis]);
    }
  }
  Pool2dShape shape;
  shape.n = x.shape[0], shape.h = x.shape[1], shape.w = x.shape[2], shape.c = x.shape[3];
  shape.kernel = attrs.kernel, shape.stride = attrs.stride, shape.padding = attrs.padding;
  const auto count = [&](int axis, int64_t size) {
    return window_count(size, attrs.kernel[axis], attrs.stride[axis], attrs.padding[axis], 1,
                        attrs.ceil_mode);
  };
  shape.oh = count(0, shape.h);
  shape.ow = count(1, shape.w);
  if (shape.oh < 1 || shape.ow < 1) {
    refuse(op, "expected images of at least ", attrs.kernel[0], "x", attrs.kernel[1],
           " with the padding, got ", x.shape.to_string(), "; use a smaller kernel");
  }
  return shape;
}

}  // namespace dlpipe::engine
