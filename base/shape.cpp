#include "dlpipe/base/shape.h"

#include <stdexcept>

namespace dlpipe {

Shape::Shape(std::span<const int64_t> dims) {
  for (int64_t dim : dims) push_back(dim);
}

void Shape::push_back(int64_t size) {
  if (rank_ == kMaxRank) throw std::length_error("[shape] a shape has at most 6 dimensions");
  dims_[rank_++] = size;
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int i = 0; i < rank_; ++i) product *= dims_[i];
  return product;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i ? "," : "") + std::to_string(dims_[i]);
  return text + "]";
}

}  // namespace dlpipe
