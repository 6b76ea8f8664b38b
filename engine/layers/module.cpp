#include "dlpipe/module.h"

#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "engine/collective/collective.h"
#include "engine/core/device_memory.h"
#include "engine/layers/recompute.h"
#include "engine/layers/split.h"

namespace dlpipe::engine {
namespace {

constexpr std::string_view kBatchCount = "num_batches_tracked";

void copy_values(const Tensor& from, Tensor& to) {
  if (from.dtype() == to.dtype()) {
    const Tensor source = from.is_contiguous() ? from : from.contiguous_copy();
    copy_memory(to.device(), to.raw(), source.device(), source.raw(), to.size_bytes());
  } else if (!to.device().is_host()) {
    Tensor converted = Tensor::empty(to.shape(), to.dtype());
    copy_values(from, converted);
    return copy_values(converted, to);
  } else {
    const std::vector<double> values = from.to_doubles();
    if (to.dtype() == DType::kF32) {
      for (size_t i = 0; i < values.size(); ++i) to.data<float>()[i] = static_cast<float>(values[i]);
    } else if (to.dtype() == DType::kI64) {
      for (size_t i = 0; i < values.size(); ++i) to.data<int64_t>()[i] = static_cast<int64_t>(values[i]);
    } else {
      throw Error(Status(ErrorCode::kUnsupported,
                         dlpipe::concat("[module] can't load ", dtype_name(from.dtype()), " into ",
                                        dtype_name(to.dtype()), "; convert the file to f32")));
    }
  }
  to.bump_version();
}

// A single number is stored as [] or as [1], depending on the program that wrote the file.
bool same_shape(const Shape& a, const Shape& b) {
  return a == b || (a.elements() == 1 && b.elements() == 1 && a.rank() <= 1 && b.rank() <= 1);
}

std::string list_names(std::string_view what, const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  if (names.empty()) return "";
  std::string text = dlpipe::concat("; ", names.size(), " ", what, ": ");
  for (size_t i = 0; i < names.size() && i < kShown; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > kShown ? text + ", ..." : text;
}

}  // namespace

template <class Visit>
void Module::visit(const std::string& prefix, const Visit& visitor) {
  visitor(prefix, *this);
  for (const auto& [name, child] : children_) child->visit(prefix + name + ".", visitor);
}
template <class Visit>
void Module::visit(const std::string& prefix, const Visit& visitor) const {
  visitor(prefix, *this);
  for (const auto& [name, child] : children_) std::as_const(*child).visit(prefix + name + ".", visitor);
}

Tensor Module::operator()(const Tensor& x) {
  return run_forward_hooks(x, recomputed_ && !is_recomputing() ? forward_recomputed(*this, x) : forward(x));
}

Tensor Module::operator()(const Tensor& x, Activation activation) {
  Tensor y = forward_fused(x, activation);
  return y.defined() ? y : activate((*this)(x), activation);
}

Tensor Module::forward_fused(const Tensor& x, Activation activation) {
  return activation == Activation::kNone || is_watched() ? Tensor() : forward_activated(x, activation);
}

Tensor Module::forward_activated(const Tensor& /*x*/, Activation /*activation*/) {
  return {};
}

Activation Module::fusible_activation() const {
  return is_watched() ? Activation::kNone : activation();
}

int Module::checkpoint_activations(std::string_view pattern) {
  int count = 0;
  std::string outer;
  for (const Named& named : modules()) {
    if (named.name.empty() || !matches_glob(named.name, std::string(pattern))) continue;
    if (!outer.empty() && named.name.starts_with(outer)) continue;
    named.module->recomputed_ = true;
    outer = named.name + ".";
    ++count;
  }
  return count;
}

Tensor Module::run_forward_hooks(const Tensor& x, Tensor y) {
  for (const auto& [number, hook] : forward_hooks_) hook(*this, x, y);
  return y;
}

double Module::flops(const TensorSpec& /*x*/, const TensorSpec& y) const {
  return children_.empty() ? static_cast<double>(y.shape.elements()) : 0.0;
}

void Module::reset_parameters(uint64_t /*seed*/, const std::string& prefix) {
  if (parameters_.empty()) return;
  refuse(kind(), "'", prefix, parameters_[0].name, "' has no initialisation; override reset_parameters");
}

std::vector<NamedTensor> Module::parameters() const {
  std::vector<NamedTensor> all;
  std::unordered_set<const TensorImpl*> seen;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const NamedTensor& parameter : module.parameters_) {
      if (seen.insert(parameter.tensor.impl()).second)
        all.push_back({prefix + parameter.name, parameter.tensor});
    }
  });
  return all;
}

std::vector<NamedTensor> Module::buffers() const {
  std::vector<NamedTensor> all;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const NamedTensor& buffer : module.buffers_) all.push_back({prefix + buffer.name, buffer.tensor});
  });
  return all;
}

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<NamedTensor> all;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const NamedTensor& parameter : module.parameters_)
      all.push_back({prefix + parameter.name, parameter.tensor});
    for (const NamedTensor& buffer : module.buffers_) all.push_back({prefix + buffer.name, buffer.tensor});
  });
  return all;
}

namespace {

/// How a state's names and shapes differ from a module's, in the module's order.
struct StateDifferences {
  std::vector<std::string> missing, unexpected, misshapen;
  std::vector<std::string> not_loaded;  // the names of all these, and of missing batch counts
  std::string text() const {
    const std::string all = list_names("missing", missing) + list_names("unexpected", unexpected) +
                            list_names("of another shape", misshapen);
    return all.empty() ? all : all.substr(2);
  }
};

StateDifferences compare(const std::vector<NamedTensor>& own, const std::vector<NamedShape>& state) {
  std::unordered_map<std::string_view, const Shape*> given;
  for (const NamedShape& entry : state) given.emplace(entry.name, &entry.shape);
  StateDifferences differences;
  for (const NamedTensor& entry : own) {
    const auto found = given.find(entry.name);
    if (found == given.end()) {
      differences.not_loaded.push_back(entry.name);
      if (!entry.name.ends_with(kBatchCount)) differences.missing.push_back(entry.name);
      continue;
    }
    if (!same_shape(*found->second, entry.tensor.shape())) {
      differences.not_loaded.push_back(entry.name);
      differences.misshapen.push_back(dlpipe::concat(entry.name, " ", found->second->to_string(), " for ",
                                                     entry.tensor.shape().to_string()));
    }
    given.erase(found);
  }
  for (const NamedShape& entry : state) {
    if (!given.contains(entry.name)) continue;
    differences.not_loaded.push_back(entry.name);
    differences.unexpected.push_back(entry.name);
  }
  return differences;
}

}  // namespace

std::string Module::state_differences(const std::vector<NamedShape>& state) const {
  return compare(state_dict(), state).text();
}

std::vector<std::string> Module::load_state_dict(const std::vector<NamedTensor>& state, bool strict) {
  std::vector<NamedShape> shapes;
  std::unordered_map<std::string_view, const Tensor*> given;
  for (const NamedTensor& entry : state) {
    shapes.push_back({entry.name, entry.tensor.shape()});
    given.emplace(entry.name, &entry.tensor);
  }
  const std::vector<NamedTensor> own = state_dict();
  StateDifferences differences = compare(own, shapes);
  if (const std::string text = differences.text(); strict && !text.empty()) {
    refuse("load_state_dict", "the weights are for another model; ", text,
           "; choose the right model, or load with strict = false");
  }
  for (NamedTensor entry : own) {
    const auto found = given.find(entry.name);
    if (found != given.end() && same_shape(found->second->shape(), entry.tensor.shape()))
      copy_values(*found->second, entry.tensor);
  }
  return std::move(differences.not_loaded);
}

void Module::to(Device& device) {
  for (NamedTensor& entry : state_dict()) {
    if (is_floating(entry.tensor.dtype()) && &entry.tensor.device() != &device)
      entry.tensor.set_data(entry.tensor.to(device));
  }
}

Device& Module::device() const {
  for (const std::vector<NamedTensor>& all : {parameters(), buffers()}) {
    for (const NamedTensor& one : all)
      if (is_floating(one.tensor.dtype())) return one.tensor.device();  // others stay on the host (to())
  }
  return cpu_device();
}

void Module::train(bool training) {
  visit("", [&](const std::string&, Module& module) { module.training_ = training; });
}

int Module::freeze(std::string_view pattern) {
  const std::string glob(pattern);
  int count = 0;
  for (NamedTensor& parameter : parameters()) {
    if (!matches_glob(parameter.name, glob)) continue;
    parameter.tensor.set_requires_grad(false);
    ++count;
  }
  return count;
}

void Module::zero_grad() {
  for (NamedTensor& parameter : parameters()) parameter.tensor.zero_grad();
}

void Module::split_over(Collective& ranks) {
  for (const auto& [name, child] : children_) child->split_over(ranks);
}

void Module::keep_stage(Collective& stages, const LayerCost& /*cost*/) {
  refuse("stage", kind(), " is not a sequence of sections that ", stages.world(),
         " stages could share; use a transformer or a Sequential, or no stages");
}

void Module::keep_only(const std::unordered_set<std::string>& names) {
  std::erase_if(children_, [&](const auto& child) { return !names.contains(child.first); });
  std::erase_if(parameters_, [&](const NamedTensor& parameter) { return !names.contains(parameter.name); });
}

std::vector<NamedSplit> Module::splits() const {
  std::vector<NamedSplit> all;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const NamedSplit& one : module.splits_) all.push_back({prefix + one.name, one.split, one.size});
  });
  return all;
}

void Module::split_parameter(Tensor& parameter, const Split& split, const Collective& ranks) {
  if (!parameter.defined()) return;
  for (NamedTensor& own : parameters_) {
    if (!same_tensor(own.tensor, parameter)) continue;
    splits_.push_back({own.name, split, parameter.size(split.axis)});
    own.tensor = own_part(parameter, split, ranks).set_requires_grad(parameter.requires_grad());
    parameter = own.tensor;
    return;
  }
}

std::vector<Module::Named> Module::modules() {
  std::vector<Named> all;
  visit("", [&](const std::string& prefix, Module& module) {
    all.push_back({prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1), &module});
  });
  return all;
}

Tensor Module::add_parameter(std::string name, Tensor tensor) {
  tensor.set_requires_grad(true);
  parameters_.push_back({std::move(name), tensor});
  return tensor;
}

Tensor Module::add_buffer(std::string name, Tensor tensor) {
  buffers_.push_back({std::move(name), tensor});
  return tensor;
}

}  // namespace dlpipe::engine
