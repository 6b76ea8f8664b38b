#include "dlpipe/engine/layers/staged_module.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "dlpipe/base/refuse.h"
#include "dlpipe/engine/autograd/function.h"
#include "dlpipe/engine/core/tensor_bytes.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

namespace {

/// What crosses is f32, row by row.
Tensor to_send(const Tensor& x) {
  return cast(plain(x), DType::kF32).contiguous_copy();
}

/// What a stage begins with. Its own input stands for the graph that begins on another rank.
class StageInput final : public Function {
 public:
  explicit StageInput(StageLine& line) : line_(line) {}
  std::string name() const override { return "stage_input"; }
  std::vector<Tensor> forward(std::span<const Tensor>) override { return {line_.input()}; }
  std::vector<Tensor> backward(std::span<const Tensor> grads) override {
    line_.input_gradient(to_send(grads[0]));
    return {Tensor()};
  }

 private:
  StageLine& line_;
};

/// What a stage ends with: a number, whose gradient is the one that the stage behind sends for what it was sent.
class StageOutput final : public Function {
 public:
  explicit StageOutput(StageLine& line) : line_(line) {}
  std::string name() const override { return "stage_output"; }
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    made_ = inputs[0].spec();
    line_.output(to_send(inputs[0]));
    return {Tensor::zeros({})};
  }
  std::vector<Tensor> backward(std::span<const Tensor>) override {
    return {cast(line_.output_gradient(made_.shape), made_.dtype), Tensor()};
  }

 private:
  StageLine& line_;
  TensorSpec made_;
};

/// A leaf: what depends on it is recorded, whatever is frozen.
Tensor graph_begin() {
  Tensor begin = Tensor::zeros({1});
  begin.set_requires_grad(true);
  return begin;
}

}  // namespace

Tensor StagedModule::forward(const Tensor& x) {
  if (line_ == nullptr) return run(x);
  return grad_enabled() ? run_with_gradients(x) : run_without(x);
}

Tensor StagedModule::run_with_gradients(const Tensor& x) {
  Tensor y =
      run(line_->is_first() ? x : run_function(std::make_shared<StageInput>(*line_), {graph_begin()})[0]);
  if (line_->is_last()) return y;
  return run_function(std::make_shared<StageOutput>(*line_), {plain(y), graph_begin()})[0];
}

Tensor StagedModule::run_without(const Tensor& x) {
  line_->begin(1);
  const Tensor y = run(line_->is_first() ? x : line_->input());
  if (!line_->is_last()) line_->output(to_send(y));
  return shared_logits(y);
}

Tensor StagedModule::shared_logits(const Tensor& own) {
  Collective& stages = line_->stages();
  const std::span<const int64_t> dims = own.shape().dims();
  const std::string_view shape(reinterpret_cast<const char*>(dims.data()), dims.size_bytes());
  const std::string last = value_or_throw(stages.gather(shape, "the shape of the logits")).back();
  std::vector<int64_t> sizes(last.size() / sizeof(int64_t));
  std::memcpy(sizes.data(), last.data(), last.size());
  Tensor logits = line_->is_last() ? to_send(own) : Tensor::empty(Shape(sizes));
  throw_if_error(stages.broadcast(bytes_of(logits), stages.world() - 1, "logits").wait());
  return logits;
}

std::vector<size_t> StagedModule::begin_stage(Collective& stages, const std::vector<double>& costs) {
  const auto parts = static_cast<size_t>(stages.world());
  if (costs.size() < parts)
    refuse(kind(), costs.size(), " sections can't be cut into ", parts, " stages; take fewer");
  line_ = std::make_unique<StageLine>(stages);
  return balanced_cuts(costs, parts);
}

// Least dearest part of the first n costs in k parts, for all n and k.
std::vector<size_t> balanced_cuts(const std::vector<double>& costs, size_t parts) {
  const size_t count = costs.size();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> dearest(parts + 1, std::vector<double>(count + 1, kNever));
  std::vector<std::vector<size_t>> last_cut(parts + 1, std::vector<size_t>(count + 1, 0));
  dearest[0][0] = 0;
  for (size_t k = 1; k <= parts; ++k) {
    for (size_t n = k; n <= count; ++n) {
      double last = 0;
      for (size_t cut = n; cut-- > k - 1;) {
        last += costs[cut];
        const double here = std::max(dearest[k - 1][cut], last);
        if (here < dearest[k][n]) {
          dearest[k][n] = here;
          last_cut[k][n] = cut;
        }
      }
    }
  }
  std::vector<size_t> cuts(parts + 1, count);
  for (size_t k = parts; k > 0; --k) cuts[k - 1] = last_cut[k][cuts[k]];
  return cuts;
}

}  // namespace dlpipe::engine
