#include "dlpipe/engine/layers/stage_line.h"

#include <algorithm>
#include <utility>

#include "dlpipe/engine/core/tensor_bytes.h"

namespace dlpipe::engine {

StageLine::~StageLine() {
  (void)before_.handle.wait();
  (void)behind_.handle.wait();
}

int64_t StageLine::ahead_of(int stage, int64_t grains) const {
  return std::min<int64_t>(stages_.world() - 1 - stage, grains);
}

Tensor StageLine::Crossing::take() {
  throw_if_error(handle.wait());
  out = Tensor();
  return std::exchange(in, Tensor());
}

void StageLine::cross(Crossing& line, int peer, Tensor out, Tensor in) {
  line.take();
  line.out = std::move(out);
  line.in = std::move(in);
  line.handle = stages_.exchange(peer, bytes_of(line.out), bytes_of(line.in), "a neighbour stage");
}

void StageLine::begin(int64_t grains) {
  before_.take();
  behind_.take();
  grains_ = grains;
  inputs_ = outputs_ = output_gradients_ = input_gradients_ = 0;
}

// The stage before goes ahead first: what it sends then crosses nothing. Later inputs come while gradients go.
Tensor StageLine::input(const Shape& shape) {
  if (inputs_++ < ahead_of(stages_.rank() - 1, grains_))
    cross(before_, stages_.rank() - 1, Tensor(), Tensor::empty(shape));
  return before_.take();
}

void StageLine::output(const Tensor& y) {
  const bool crosses = outputs_++ >= ahead(grains_);
  cross(behind_, stages_.rank() + 1, y, crosses ? Tensor::empty(y.shape()) : Tensor());
}

Tensor StageLine::output_gradient(const Shape& shape) {
  if (output_gradients_++ + ahead(grains_) >= grains_)
    cross(behind_, stages_.rank() + 1, Tensor(), Tensor::empty(shape));
  return behind_.take();
}

void StageLine::input_gradient(const Tensor& gradient) {
  const bool crosses = input_gradients_++ + ahead_of(stages_.rank() - 1, grains_) < grains_;
  cross(before_, stages_.rank() - 1, gradient, crosses ? Tensor::empty(gradient.shape()) : Tensor());
}

}  // namespace dlpipe::engine
