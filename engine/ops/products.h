// The attributes of the op matmul, shared by its record and its kernels on every backend.
#pragma once

#include "dlpipe/op.h"

namespace dlpipe::engine {

struct MatmulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
  }
};

/// A batched product's sizes: broadcast batch axes, and matrices after transposition.
struct MatmulShape {
  Shape batch;  // of the output
  int64_t m = 0, n = 0, k = 0;
  std::vector<int64_t> a_matrix, b_matrix;  // which matrix of a and b belongs to each matrix of the output

  MatmulShape(const Shape& a, const Shape& b, const MatmulAttrs& attrs);
  int64_t matrices() const { return static_cast<int64_t>(a_matrix.size()); }
};

}  // namespace dlpipe::engine
