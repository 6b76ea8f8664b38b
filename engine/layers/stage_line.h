// What a stage of a pipeline-parallel model exchanges with the stages before and behind it, in the order of 1F1B (one forward,
// one backward: Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021,
// section 2.2).
//
// A stage is ahead by as many forward passes as there are stages behind it; then it goes forward and back in turn. So on each line
// an activation goes one way while a gradient comes the other way, as one exchange: neither waits until the other was taken.
//
// The shape of what crosses goes before the first grain of a batch; all grains of a batch have one shape. With it goes how many
// random ops the stages so far have run, so that the next one draws what a single process would.
//
// Belongs to the training thread. Each batch begins with begin(); then all four are called once for every grain, in their order.
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

class StageLine {
 public:
  /// `stages` are the ranks of one pipeline in the order of their stages; they live longer.
  explicit StageLine(Collective& stages) : stages_(stages) {}
  ~StageLine();  // waits for what is under way
  StageLine(const StageLine&) = delete;
  StageLine& operator=(const StageLine&) = delete;

  bool is_first() const { return stages_.rank() == 0; }
  bool is_last() const { return stages_.rank() + 1 == stages_.world(); }
  Collective& stages() const { return stages_; }
  /// Forward passes that this stage does before its first backward, of a batch of so many grains.
  int64_t ahead(int64_t grains) const { return ahead_of(stages_.rank(), grains); }

  void begin(int64_t grains);
  /// From the stage before, f32. random_state() goes on from that stage's.
  Tensor input();
  /// To the stage behind, f32. Goes on while the caller does.
  void output(const Tensor& y);
  /// From the stage behind: of the output of the same number.
  Tensor output_gradient(const Shape& shape);
  /// To the stage before.
  void input_gradient(const Tensor& gradient);

 private:
  /// What crosses on one line.
  struct Crossing {
    Tensor out = {};
    Tensor in = {};
    Collective::Handle handle = {};

    Tensor take();
  };

  struct ShapeMessage {
    int64_t random_calls = 0;
    int64_t rank = 0;
    std::array<int64_t, Shape::kMaxRank> sizes = {};
  };

  int64_t ahead_of(int stage, int64_t grains) const;
  /// Waits for what crossed there before.
  void cross(Crossing& line, int peer, Tensor out, Tensor in);

  Collective& stages_;
  int64_t grains_ = 0;
  int64_t inputs_ = 0, outputs_ = 0, output_gradients_ = 0, input_gradients_ = 0;  // of this batch
  Crossing before_, behind_;
  ShapeMessage shape_in_, shape_out_;
  Collective::Handle shape_sent_ = {};
};

}  // namespace dlpipe::engine
