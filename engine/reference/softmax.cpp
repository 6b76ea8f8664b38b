#include "dlpipe/engine/reference/softmax_rows.h"

namespace dlpipe::engine {

namespace {

/// dx = y (dy - sum y dy)
struct SoftmaxRule {
  template <class T>
  static T value(T shifted, T sum) {
    return std::exp(shifted) / sum;
  }
  template <class T>
  static T term(T y, T grad) {
    return y * grad;
  }
  template <class T>
  static T gradient(T y, T grad, T sum) {
    return y * (grad - sum);
  }
};

}  // namespace

extern const Kernels softmax_reference;
constinit const Kernels softmax_reference = reference::softmax_kernels<SoftmaxRule>();

}  // namespace dlpipe::engine
