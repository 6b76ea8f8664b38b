// Pipeline parallelism: the connection between two stages, and models made of sections. (StagedModule and
// Sequential: dlpipe/layers.h.) One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/layers.h"
#include "dlpipe/module.h"
#include "dlpipe/tensor.h"
#include "engine/collective/collective.h"

namespace dlpipe::engine {

// What a stage of a pipeline-parallel model exchanges with the previous and the next stage, in the order of 1F1B (one forward,
// one backward: Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021,
// section 2.2).
//
// A stage first does as many forward passes as there are stages after it, then alternates between forward and backward. Then one
// exchange on each line carries an activation and a gradient in opposite directions, and neither waits for the other.
//
// The shape is sent before the first grain of a batch; all grains of a batch have the same shape. It is sent with the number of
// random ops that the stages so far have run, so that the next stage draws the numbers that a single process would draw.
//
// Belongs to the training thread. Each batch begins with begin(); then all four functions are called once for every grain, in
// order.

class StageLine {
 public:
  /// `stages` are the ranks of one pipeline in the order of their stages; must outlive this object.
  explicit StageLine(Collective& stages) : stages_(stages) {}
  ~StageLine();  // waits for pending exchanges
  StageLine(const StageLine&) = delete;
  StageLine& operator=(const StageLine&) = delete;

  bool is_first() const { return stages_.rank() == 0; }
  bool is_last() const { return stages_.rank() + 1 == stages_.world(); }
  Collective& stages() const { return stages_; }
  /// The number of forward passes that this stage does before its first backward, for a batch of this many grains.
  int64_t ahead(int64_t grains) const { return ahead_of(stages_.rank(), grains); }

  void begin(int64_t grains);
  /// Receives the previous stage's output, f32. Continues that stage's random_state().
  Tensor input();
  /// Sends to the next stage, f32, asynchronously.
  void output(const Tensor& y);
  /// Receives the gradient of the output with the same number from the next stage.
  Tensor output_gradient(const Shape& shape);
  /// Sends to the previous stage.
  void input_gradient(const Tensor& gradient);

 private:
  /// The exchange on one line.
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
  /// Waits for the line's previous exchange.
  void cross(Crossing& line, int peer, Tensor out, Tensor in);

  Collective& stages_;
  int64_t grains_ = 0;
  int64_t inputs_ = 0, outputs_ = 0, output_gradients_ = 0, input_gradients_ = 0;  // of this batch
  Crossing before_, behind_;
  ShapeMessage shape_in_, shape_out_;
  Collective::Handle shape_sent_ = {};
};

/// Where to cut a sequence of costs into `parts` consecutive, nonempty parts so that the most expensive one is as cheap as
/// possible: parts + 1 numbers. Needs at least `parts` costs.
std::vector<size_t> balanced_cuts(const std::vector<double>& costs, size_t parts);

// A model that is a sequence of sections, which pass on a residual stream.

class LayerChain : public StagedModule {
 public:
  /// Ignores `cost`: sections have their own costs.
  void keep_stage(Collective& stages, const LayerCost& cost) override;
  std::vector<Tie> ties() const override;

 protected:
  /// `uses`: children and own parameters, by name; several sections may use the same. `cost`: of computing it, in any unit.
  /// The first section gets the model's input as the stream.
  void add_section(std::vector<std::string> uses, double cost, std::function<Residual(Residual)> run);
  Tensor run(const Tensor& x) override;

 private:
  struct Section {
    std::vector<std::string> uses;
    double cost = 0;
    std::function<Residual(Residual)> run;
  };
  /// Creates groups of ranks for parameters that other stages use, too.
  void tie(const std::vector<size_t>& cuts);

  std::vector<Section> sections_;  // of this stage
  struct SharedName {
    std::string name;
    std::shared_ptr<Collective> ranks;
  };
  std::vector<SharedName> shared_;
};

}  // namespace dlpipe::engine
