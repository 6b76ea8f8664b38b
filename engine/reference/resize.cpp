// The reference for cpu/kernels/resize.cpp.
#include "engine/ops/resize.h"

#include <algorithm>

#include "dlpipe/op.h"
#include "engine/reference/formula.h"

namespace dlpipe::engine {
namespace {

/// Calls use(input element, output element, share) for each output and each input that contributes to it.
template <class T, class Use>
void for_shares(const Shape& x, const ResizeAttrs& attrs, const Use& use) {
  const ResizePlaces rows = resize_places(x, attrs, 0), columns = resize_places(x, attrs, 1);
  const int64_t channels = x[3];
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int oh = 0; oh < rows.out; ++oh) {
      const ResizePlace row = rows.place(oh);
      for (int ow = 0; ow < columns.out; ++ow) {
        const ResizePlace column = columns.place(ow);
        const int64_t y = ((n * rows.out + oh) * columns.out + ow) * channels;
        const auto add = [&](int h, int w, double share) {
          if (share == 0) return;
          const int64_t from = ((n * rows.in + h) * columns.in + w) * channels;
          for (int64_t c = 0; c < channels; ++c) use(from + c, y + c, static_cast<T>(share));
        };
        add(row.first, column.first, (1 - row.share) * (1 - column.share));
        add(row.first, column.second, (1 - row.share) * column.share);
        add(row.second, column.first, row.share * (1 - column.share));
        add(row.second, column.second, row.share * column.share);
      }
    }
  }
}

void forward(const ForwardArgs& args) {
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T* x = args.inputs[0].data<T>();
    T* y = args.outputs[0].data<T>();
    std::fill_n(y, args.outputs[0].elements(), T(0));
    for_shares<T>(args.inputs[0].shape(), args.attrs.as<ResizeAttrs>(),
                  [&](int64_t from, int64_t to, T share) { y[to] += share * x[from]; });
  });
}

void backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  reference::typed(grad_x.dtype(), [&]<class T>(T) {
    const T* dy = args.grad_outputs[0].data<T>();
    T* dx = grad_x.data<T>();
    std::fill_n(dx, grad_x.elements(), T(0));
    for_shares<T>(grad_x.shape(), args.attrs.as<ResizeAttrs>(),
                  [&](int64_t from, int64_t to, T share) { dx[from] += share * dy[to]; });
  });
}

}  // namespace

extern const Kernels resize_reference;
const Kernels resize_reference{.forward = forward, .backward = backward};

}  // namespace dlpipe::engine
