#include "engine/layers/staged.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <unordered_set>
#include <utility>

#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"

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

// The previous stage starts first, so its first outputs are only received. Later ones are exchanged for gradients
// (input_gradient).
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

namespace {

/// Exchanged tensors are f32 and contiguous.
Tensor to_send(const Tensor& x) {
  return cast(plain(x), DType::kF32).contiguous_copy();
}

/// The first node of a stage. Its own input represents the graph that begins on another rank.
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

/// The last node of a stage. Its result is a dummy scalar; its backward returns the gradient that the next stage sends.
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

/// A leaf, so that everything that depends on it is recorded, even if parameters are frozen.
Tensor graph_begin() {
  Tensor begin = Tensor::zeros({1});
  begin.set_requires_grad(true);
  return begin;
}

}  // namespace

StagedModule::StagedModule() = default;

StagedModule::~StagedModule() = default;

StageLine* StagedModule::stage_line() {
  return line_.get();
}

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
    refuse(kind(), costs.size(), " sections can't be cut into ", parts, " stages; use fewer");
  line_ = std::make_unique<StageLine>(stages);
  return balanced_cuts(costs, parts);
}

// Dynamic programming: dearest[k][n] is the smallest possible cost of the most expensive part if the first n costs are cut into k.
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

Sequential::Sequential(std::initializer_list<std::pair<std::string, std::shared_ptr<Module>>> layers) {
  for (const auto& [name, layer] : layers) append(name, layer);
}

Sequential& Sequential::append(std::shared_ptr<Module> layer) {
  return append(std::to_string(children().size()), std::move(layer));
}

Sequential& Sequential::append(std::string name, std::shared_ptr<Module> layer) {
  add_module(std::move(name), std::move(layer));
  return *this;
}

Tensor Sequential::run(const Tensor& x) {
  Tensor y = x;
  for (size_t i = 0; i < children().size(); ++i) {
    Module& layer = *children()[i].second;
    Tensor both;  // of this layer and the activation after it
    if (i + 1 < children().size())
      both = layer.forward_fused(y, children()[i + 1].second->fusible_activation());
    if (both.defined()) ++i;
    y = both.defined() ? both : layer(y);
  }
  return y;
}

void Sequential::list_layers(const std::string& prefix, std::vector<Layer>& layers) const {
  for (const auto& [name, child] : children()) {
    if (const auto* inner = dynamic_cast<const Sequential*>(child.get()); inner != nullptr) {
      inner->list_layers(prefix + name + ".", layers);
    } else {
      layers.push_back({prefix + name, child.get()});
    }
  }
}

void Sequential::keep_layers(const std::string& prefix, const std::unordered_set<std::string>& names) {
  std::unordered_set<std::string> kept;
  for (const auto& [name, child] : children()) {
    auto* const inner = dynamic_cast<Sequential*>(child.get());
    if (inner != nullptr) inner->keep_layers(prefix + name + ".", names);
    if (inner != nullptr ? !inner->children().empty() : names.contains(prefix + name)) kept.insert(name);
  }
  keep_only(kept);
}

void Sequential::keep_stage(Collective& stages, const LayerCost& cost) {
  std::vector<Layer> layers;
  list_layers("", layers);
  std::vector<std::vector<std::string>> sections(1);
  std::vector<double> costs(1, 0.0);
  std::unordered_set<const Module*> with_parameters;
  for (const Layer& layer : layers) {
    if (!layer.module->parameters().empty()) {
      if (!with_parameters.empty()) {
        sections.emplace_back();
        costs.push_back(0);
      }
      if (!with_parameters.insert(layer.module).second)
        refuse("stage", layer.name,
               " is a layer that occurs twice: two stages can't share it; use no stages");
    }
    sections.back().push_back(layer.name);
    costs.back() += cost(layer.name);
  }
  const std::vector<size_t> cuts = begin_stage(stages, costs);
  const auto own = static_cast<size_t>(stages.rank());
  std::unordered_set<std::string> kept;
  for (size_t i = cuts[own]; i < cuts[own + 1]; ++i) kept.insert(sections[i].begin(), sections[i].end());
  keep_layers("", kept);
}

Tensor Residual::value() const {
  return branch.defined() ? x + branch : x;
}

void LayerChain::add_section(std::vector<std::string> uses, double cost,
                             std::function<Residual(Residual)> run) {
  sections_.push_back({std::move(uses), cost, std::move(run)});
}

Tensor LayerChain::run(const Tensor& x) {
  Residual stream = {x};
  for (const Section& section : sections_) stream = section.run(std::move(stream));
  return stream.value();
}

void LayerChain::keep_stage(Collective& stages, const LayerCost& /*cost*/) {
  std::vector<double> costs;
  for (const Section& section : sections_) costs.push_back(section.cost);
  const std::vector<size_t> cuts = begin_stage(stages, costs);
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
  std::vector<std::vector<int>> users;  // the stages that use a name
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
  const int own = stage_line()->stages().rank();
  for (size_t i = 0; i < names.size(); ++i) {
    if (users[i].size() > 1 && std::ranges::find(users[i], own) != users[i].end())
      shared_.push_back({names[i], stage_line()->stages().group(users[i])});
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

}  // namespace dlpipe::engine
