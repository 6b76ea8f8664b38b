#include "dlpipe/engine/layers/layer_chain.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <unordered_set>
#include <utility>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/autograd/function.h"
#include "dlpipe/engine/core/tensor_bytes.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

namespace {

/// What a stage begins with. Its own input stands for the graph that begins on another rank.
class StageInput final : public Function {
 public:
  StageInput(StageLine& line, const Shape& shape) : line_(line), shape_(shape) {}
  std::string name() const override { return "stage_input"; }
  std::vector<Tensor> forward(std::span<const Tensor>) override { return {line_.input(shape_)}; }
  std::vector<Tensor> backward(std::span<const Tensor> grads) override {
    line_.input_gradient(cast(grads[0], DType::kF32).contiguous_copy());
    return {Tensor()};
  }

 private:
  StageLine& line_;
  const Shape shape_;
};

/// What a stage ends with: a number, whose gradient is the one that the stage behind sends for what it was sent.
class StageOutput final : public Function {
 public:
  explicit StageOutput(StageLine& line) : line_(line) {}
  std::string name() const override { return "stage_output"; }
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    shape_ = inputs[0].shape();
    line_.output(cast(inputs[0], DType::kF32).contiguous_copy());
    return {Tensor::zeros({})};
  }
  std::vector<Tensor> backward(std::span<const Tensor>) override {
    return {line_.output_gradient(shape_), Tensor()};
  }

 private:
  StageLine& line_;
  Shape shape_;
};

/// A leaf: what depends on it is recorded, whatever is frozen.
Tensor graph_begin() {
  Tensor begin = Tensor::zeros({1});
  begin.set_requires_grad(true);
  return begin;
}

void expect_stream(const Tensor& stream, const Shape& shape) {
  if (stream.shape() != shape)
    throw Error(Status(ErrorCode::kInternal, concat("[stage] the stream is ", stream.shape().to_string(),
                                                    ", expected ", shape.to_string())));
}

}  // namespace

void LayerChain::add_section(std::vector<std::string> uses, double cost,
                             std::function<Residual(Residual)> run) {
  sections_.push_back({std::move(uses), cost, std::move(run)});
}

Tensor LayerChain::forward(const Tensor& x) {
  if (line_ == nullptr) return run(x);
  return grad_enabled() ? run_with_gradients(x) : run_without(x);
}

Tensor LayerChain::run(const Tensor& x) const {
  Residual stream = {x};
  for (const Section& section : sections_) stream = section.run(std::move(stream));
  return stream.value();
}

Tensor LayerChain::run_with_gradients(const Tensor& x) {
  const Shape shape = stream_shape(x);
  Tensor y = run(
      line_->is_first() ? x : run_function(std::make_shared<StageInput>(*line_, shape), {graph_begin()})[0]);
  if (line_->is_last()) return y;
  expect_stream(y, shape);
  return run_function(std::make_shared<StageOutput>(*line_), {y, graph_begin()})[0];
}

Tensor LayerChain::run_without(const Tensor& x) {
  line_->begin(1);
  const Shape shape = stream_shape(x);
  const Tensor y = run(line_->is_first() ? x : line_->input(shape));
  if (!line_->is_last()) {
    expect_stream(y, shape);
    line_->output(cast(y, DType::kF32).contiguous_copy());
  }
  return shared_logits(y);
}

Tensor LayerChain::shared_logits(const Tensor& own) {
  Collective& stages = line_->stages();
  const std::span<const int64_t> dims = own.shape().dims();
  const std::string_view shape(reinterpret_cast<const char*>(dims.data()), dims.size_bytes());
  const std::string last = value_or_throw(stages.gather(shape, "the shape of the logits")).back();
  std::vector<int64_t> sizes(last.size() / sizeof(int64_t));
  std::memcpy(sizes.data(), last.data(), last.size());
  Tensor logits = line_->is_last() ? cast(own, DType::kF32).contiguous_copy() : Tensor::empty(Shape(sizes));
  throw_if_error(stages.broadcast(bytes_of(logits), stages.world() - 1, "logits").wait());
  return logits;
}

void LayerChain::keep_stage(Collective& stages) {
  const auto parts = static_cast<size_t>(stages.world());
  if (sections_.size() < parts)
    refuse(kind(), sections_.size(), " sections can't be cut into ", parts, " stages; take fewer");
  std::vector<double> costs;
  for (const Section& section : sections_) costs.push_back(section.cost);
  const std::vector<size_t> cuts = balanced_cuts(costs, parts);
  line_ = std::make_unique<StageLine>(stages);
  tie(cuts);
  const auto own = static_cast<size_t>(stages.rank());
  sections_ = std::vector<Section>(sections_.begin() + static_cast<ptrdiff_t>(cuts[own]),
                                   sections_.begin() + static_cast<ptrdiff_t>(cuts[own + 1]));
  std::unordered_set<std::string> kept;
  for (const Section& section : sections_) kept.insert(section.uses.begin(), section.uses.end());
  keep_only(kept);
}

void LayerChain::tie(const std::vector<size_t>& cuts) {
  std::vector<std::string> names;
  std::vector<std::vector<int>> users;  // by name, the stages
  for (size_t stage = 0; stage + 1 < cuts.size(); ++stage) {
    for (size_t s = cuts[stage]; s < cuts[stage + 1]; ++s) {
      for (const std::string& name : sections_[s].uses) {
        const auto place = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
        if (place == names.size()) {
          names.push_back(name);
          users.emplace_back();
        }
        if (users[place].empty() || users[place].back() != static_cast<int>(stage))
          users[place].push_back(static_cast<int>(stage));
      }
    }
  }
  const int own = line_->stages().rank();
  for (size_t i = 0; i < names.size(); ++i) {
    if (users[i].size() > 1 && std::ranges::find(users[i], own) != users[i].end())
      shared_.push_back({names[i], line_->stages().group(users[i])});
  }
}

std::vector<Tie> LayerChain::ties() const {
  std::vector<Tie> all;
  for (const NamedTensor& parameter : parameters()) {
    for (const SharedName& one : shared_) {
      if (parameter.name == one.name || parameter.name.starts_with(one.name + "."))
        all.push_back({parameter, one.ranks.get()});
    }
  }
  return all;
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
