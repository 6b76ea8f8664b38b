#include "engine/ops/sequences.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/reference/formula.h"

namespace dlpipe::engine {

namespace {

void embedding_forward(const ForwardArgs& args) {
  const Tensor& table = args.inputs[0];
  const Tensor& ids = args.inputs[1];
  check_ids(ids, table.size(0));
  reference::typed(table.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < ids.elements(); ++i) {
      std::copy_n(table.data<T>() + ids.data<int64_t>()[i] * table.size(1), table.size(1),
                  args.outputs[0].data<T>() + i * table.size(1));
    }
  });
}

void embedding_backward(const BackwardArgs& args) {
  const Tensor& grad_table = args.grad_inputs[0];
  const Tensor& ids = args.inputs[1];
  const int64_t width = grad_table.size(1);
  reference::typed(grad_table.dtype(), [&]<class T>(T) {
    T* to = grad_table.data<T>();
    std::fill_n(to, grad_table.elements(), T(0));
    for (int64_t i = 0; i < ids.elements(); ++i) {
      for (int64_t c = 0; c < width; ++c) {
        to[ids.data<int64_t>()[i] * width + c] += args.grad_outputs[0].data<T>()[i * width + c];
      }
    }
  });
}

}  // namespace

extern const Kernels embedding_reference;
const Kernels embedding_reference = {.forward = embedding_forward, .backward = embedding_backward};

namespace {

// Calls body(sequence, head, position, seen) for each position; `seen` is the number of positions that it sees.
template <class Body>
void each_row(const AttentionShape& s, bool causal, const Body& body) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t t = 0; t < s.length; ++t) body(b, h, t, causal ? t + 1 : s.length);
    }
  }
}

template <class T>
T dot(const T* a, const T* b, int64_t count) {
  T sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void self_attention_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<AttentionAttrs>();
  const AttentionShape s(args.inputs[0].shape(), attrs);
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T* qkv = args.inputs[0].data<T>();
    std::vector<T> weights(static_cast<size_t>(s.length));
    each_row(s, attrs.causal, [&](int64_t b, int64_t h, int64_t t, int64_t seen) {
      const T* first = qkv + b * s.length * s.qkv_row() + h * s.width;
      const T* query = first + t * s.qkv_row();
      T largest = -INFINITY, sum = 0;
      for (int64_t j = 0; j < seen; ++j) {
        weights[j] = dot(query, first + s.out_row() + j * s.qkv_row(), s.width) * static_cast<T>(s.scale);
        largest = std::max(largest, weights[j]);
      }
      for (int64_t j = 0; j < seen; ++j) sum += weights[j] = std::exp(weights[j] - largest);
      T* out = args.outputs[0].data<T>() + (b * s.length + t) * s.out_row() + h * s.width;
      for (int64_t d = 0; d < s.width; ++d) {
        T value = 0;
        for (int64_t j = 0; j < seen; ++j) value += weights[j] * first[2 * s.out_row() + j * s.qkv_row() + d];
        out[d] = value / sum;
      }
      args.outputs[1].data<T>()[(b * s.heads + h) * s.length + t] = largest + std::log(sum);
    });
  });
}

// With P the softmax, O = P V: dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)), dQ = dS K scale,
// dK = dS^T Q scale.
void self_attention_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<AttentionAttrs>();
  const AttentionShape s(args.inputs[0].shape(), attrs);
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T* qkv = args.inputs[0].data<T>();
    T* grad = args.grad_inputs[0].data<T>();
    std::fill_n(grad, args.grad_inputs[0].elements(), T(0));
    each_row(s, attrs.causal, [&](int64_t b, int64_t h, int64_t t, int64_t seen) {
      const int64_t first = b * s.length * s.qkv_row() + h * s.width;
      const int64_t query = first + t * s.qkv_row();
      const int64_t row = (b * s.length + t) * s.out_row() + h * s.width;
      const T* out = args.outputs[0].data<T>() + row;
      const T* grad_out = args.grad_outputs[0].data<T>() + row;
      const T sum = args.outputs[1].data<T>()[(b * s.heads + h) * s.length + t];
      const T delta = dot(grad_out, out, s.width);
      for (int64_t j = 0; j < seen; ++j) {
        const int64_t key = first + s.out_row() + j * s.qkv_row();
        const int64_t value = key + s.out_row();
        const T p = std::exp(dot(qkv + query, qkv + key, s.width) * static_cast<T>(s.scale) - sum);
        const T ds = p * (dot(grad_out, qkv + value, s.width) - delta) * static_cast<T>(s.scale);
        for (int64_t d = 0; d < s.width; ++d) {
          grad[value + d] += p * grad_out[d];
          grad[query + d] += ds * qkv[key + d];
          grad[key + d] += ds * qkv[query + d];
        }
      }
    });
  });
}

}  // namespace

extern const Kernels self_attention_reference;
const Kernels self_attention_reference = {.forward = self_attention_forward,
                                          .backward = self_attention_backward};

}  // namespace dlpipe::engine
