// self_attention's attributes and sizes, and what the kernels of embedding check.
#pragma once

#include <cstdint>

#include "dlpipe/dtype.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

struct AttentionAttrs {
  int heads = 1;
  bool causal = false;  // position t attends to positions up to t

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("heads", self.heads);
    visit("causal", self.causal);
  }
};

/// qkv [B,T,3*H*D]: queries of all heads, then keys, then values.
struct AttentionShape {
  AttentionShape(const Shape& qkv, const AttentionAttrs& attrs);
  int64_t batch, length, heads, width;  // B, T, H, D
  double scale;                         // of query times key: 1 / sqrt(D)
  /// Elements from one position to the next, of qkv and of the output.
  int64_t qkv_row() const { return 3 * heads * width; }
  int64_t out_row() const { return heads * width; }
};

/// Floating-point operations of one forward pass; a causal one computes half of the products.
double attention_flops(const Shape& qkv, const AttentionAttrs& attrs);

/// Throws Error "[embedding] ..." unless every id is a row of a table of `rows`.
void check_ids(const Tensor& ids, int64_t rows);

}  // namespace dlpipe::engine
