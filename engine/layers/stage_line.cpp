#include "dlpipe/engine/layers/stage_line.h"

#include <algorithm>
#include <utility>

#include "dlpipe/engine/core/tensor_bytes.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

StageLine::~StageLine() {
  (void)before_.handle.wait();
  (void)behind_.handle.wait();
  (void)shape_sent_.wait();
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
  throw_if_error(shape_sent_.wait());
  grains_ = grains;
  inputs_ = outputs_ = output_gradients_ = input_gradients_ = 0;
}

// The stage before goes ahead first: what it sends then crosses nothing. Later inputs come while gradients go.
Tensor StageLine::input() {
  const int before = stages_.rank() - 1;
  if (inputs_ == 0) {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&shape_in_, 1));
    throw_if_error(stages_.receive(before, bytes, "the shape of a neighbour stage's output").wait());
  }
  if (inputs_++ < ahead_of(before, grains_)) {
    const std::span<const int64_t> sizes(shape_in_.sizes.data(), static_cast<size_t>(shape_in_.rank));
    cross(before_, before, Tensor(), Tensor::empty(Shape(sizes)));
  }
  random_state().call = static_cast<uint32_t>(shape_in_.random_calls);
  return before_.take();
}

void StageLine::output(const Tensor& y) {
  if (outputs_ == 0) {
    shape_out_.random_calls = random_state().call;
    shape_out_.rank = y.rank();
    std::ranges::copy(y.shape().dims(), shape_out_.sizes.begin());
    shape_sent_ =
        stages_.send(stages_.rank() + 1, std::as_bytes(std::span(&shape_out_, 1)), "the next stage");
  }
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
