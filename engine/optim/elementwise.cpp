#include "dlpipe/engine/optim/elementwise.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/optim/on_device.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kRun = 16384;  // elements: four arrays of it fit in a core's L2
constexpr const char* kSteps = "steps";

[[noreturn]] void fail(const std::string& message) {
  throw Error(Status(ErrorCode::kMisuse, "[optimizer] " + message));
}

/// The gradient in one piece, or undefined when there is none.
Tensor checked_gradient(const NamedTensor& parameter) {
  Tensor grad = parameter.tensor.grad();
  if (!grad.defined()) return grad;
  if (grad.shape() != parameter.tensor.shape() || grad.dtype() != DType::kF32) {
    fail(concat("the gradient of '", parameter.name, "' is ", dtype_name(grad.dtype()), " ",
                grad.shape().to_string(), ", expected f32 ", parameter.tensor.shape().to_string(),
                "; set_grad with the parameter's shape"));
  }
  return grad.is_contiguous() ? grad : grad.contiguous_copy();
}

float scale_of(const std::string& name, const char* argument,
               const std::vector<OptimizerArguments::Scale>& scales) {
  double factor = 1.0;
  for (const OptimizerArguments::Scale& scale : scales) {
    check_optimizer_argument(std::isfinite(scale.factor) && scale.factor >= 0.0, "optimizer", argument,
                             scale.factor, "a number of at least 0");
    if (matches_glob(name, scale.pattern)) factor = scale.factor;
  }
  return static_cast<float>(factor);
}

}  // namespace

ElementwiseOptimizer::ElementwiseOptimizer(std::vector<NamedTensor> parameters,
                                           const OptimizerArguments& arguments, const StateForms& states,
                                           const std::function<bool(const NamedTensor&)>& whole) {
  for (NamedTensor& parameter : parameters) {
    if (parameter.tensor.dtype() != DType::kF32 || !parameter.tensor.is_contiguous()) {
      fail(concat("'", parameter.name, "' is not a contiguous f32 tensor; optimize Module::parameters()"));
    }
    Slot slot;
    const std::string& name = parameter.name;
    const bool decays = arguments.decay_vectors || parameter.tensor.rank() > 1;
    slot.lr_scale = scale_of(name, "lr_scale", arguments.lr_scales);
    slot.decay_scale = decays ? scale_of(name, "decay_scale", arguments.decay_scales) : 0.0f;
    slot.whole = whole != nullptr && whole(parameter);
    slot.forms = states(parameter.tensor.shape());
    slot.parameter = std::move(parameter);
    slots_.push_back(std::move(slot));
  }
}

void ElementwiseOptimizer::append_runs(Slot& slot, int64_t run_length, std::vector<ElementRun>* runs) {
  const Tensor& weights = slot.parameter.tensor;
  for (size_t i = slot.states.size(); i < slot.forms.size(); ++i)
    slot.states.push_back(Tensor::zeros(slot.forms[i].shape, slot.forms[i].dtype));
  ElementRun run;
  run.lr_scale = slot.lr_scale;
  run.decay_scale = slot.decay_scale;
  for (int64_t begin = 0; begin < weights.elements(); begin += run_length) {
    run.weights = weights.data<float>() + begin;
    run.gradients = weights.grad().data<float>() + begin;
    for (size_t i = 0; i < slot.states.size(); ++i) {
      const auto bytes = static_cast<int64_t>(dtype_size(slot.forms[i].dtype));
      run.states[i] = static_cast<std::byte*>(slot.states[i].raw()) + begin / slot.forms[i].block * bytes;
    }
    run.count = std::min(run_length, weights.elements() - begin);
    run.key = static_cast<uint32_t>(runs->size());
    runs->push_back(run);
  }
}

void ElementwiseOptimizer::update_flat(const FlatGroups::Part&) const {
  throw Error(
      Status(ErrorCode::kUnsupported, concat("[optimizer] this one has no step on devices; take one of ",
                                             names_on_device(OptimizerRegistry::builtin()))));
}

// Frozen parameters stay where they are.
FlatGroups& ElementwiseOptimizer::flat() {
  if (flat_ != nullptr) return *flat_;
  std::vector<FlatGroups::Member> members;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    if (!slot.parameter.tensor.requires_grad()) continue;
    members.push_back({slot.parameter, slot.lr_scale, slot.decay_scale, slot.whole && !takes_segments()});
    flat_slots_.push_back(s);
  }
  const size_t states = slots_.empty() ? 0 : slots_.front().forms.size();
  Device& device = slots_.empty() ? cpu_device() : slots_.front().parameter.tensor.device();
  flat_ = std::make_unique<FlatGroups>(device, members, static_cast<int>(states), takes_segments());
  for (size_t i = 0; i < flat_slots_.size(); ++i) {
    for (size_t k = 0; k < states; ++k)
      slots_[flat_slots_[i]].states.push_back(flat_->state(i, static_cast<int>(k)));
  }
  return *flat_;
}

void ElementwiseOptimizer::set_rate_on_device(double lr) {
  flat().set_rate(lr);
}

DeviceStepFlags ElementwiseOptimizer::step_on_device(const DeviceStep& step) {
  return flat().step(
      step, [this](const FlatGroups::Part& part) { update_flat(part); },
      [this](const FlatGroups::Whole& whole) { update_whole_on_device(whole); });
}

void ElementwiseOptimizer::step(double lr) {
  std::vector<ElementRun> runs;
  std::vector<ElementRun> wholes;
  std::vector<int64_t> rows;
  for (Slot& slot : slots_) {
    const Tensor grad = checked_gradient(slot.parameter);
    if (!grad.defined()) continue;
    slot.parameter.tensor.set_grad(grad);
    if (!slot.whole) {
      append_runs(slot, kRun, &runs);
    } else if (grad.elements() > 0) {
      append_runs(slot, grad.elements(), &wholes);
      rows.push_back(grad.rank() > 0 ? grad.size(0) : 1);
    }
  }
  begin_step(lr, ++steps_);
  parallel_slices(static_cast<int64_t>(runs.size()),
                  [&](int64_t i) { update(runs[static_cast<size_t>(i)]); });
  for (size_t i = 0; i < wholes.size(); ++i) update_whole(wholes[i], rows[i]);
  for (Slot& slot : slots_) {
    if (slot.parameter.tensor.grad().defined()) slot.parameter.tensor.bump_version();
  }
}

std::vector<NamedTensor> ElementwiseOptimizer::state() const {
  const int64_t steps = this->steps();
  std::vector<NamedTensor> all = {{kSteps, Tensor::from<int64_t>({&steps, 1}, {1})}};
  for (const Slot& slot : slots_) {
    for (size_t i = 0; i < slot.states.size(); ++i)
      all.push_back({slot.parameter.name + "." + slot.forms[i].name, slot.states[i]});
  }
  return all;
}

void ElementwiseOptimizer::load_state(const std::vector<NamedTensor>& state) {
  struct Place {
    size_t slot;
    size_t state;
  };
  std::unordered_map<std::string, Place> places;
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (size_t i = 0; i < slots_[s].forms.size(); ++i)
      places[slots_[s].parameter.name + "." + slots_[s].forms[i].name] = {s, i};
  }
  int64_t steps = -1;
  std::vector<std::vector<Tensor>> loaded(slots_.size());
  for (const NamedTensor& entry : state) {
    if (entry.name == kSteps && entry.tensor.elements() == 1) {
      steps = static_cast<int64_t>(entry.tensor.item());
      continue;
    }
    const auto place = places.find(entry.name);
    if (place == places.end())
      fail(concat("the saved state has '", entry.name,
                  "', which this optimizer hasn't; resume with the same one"));
    const std::vector<StateForm>& forms = slots_[place->second.slot].forms;
    const StateForm& form = forms[place->second.state];
    if (entry.tensor.shape() != form.shape || entry.tensor.dtype() != form.dtype) {
      fail(concat("the saved '", entry.name, "' is ", dtype_name(entry.tensor.dtype()), " ",
                  entry.tensor.shape().to_string(), ", expected ", dtype_name(form.dtype), " ",
                  form.shape.to_string(), "; resume with the same model"));
    }
    loaded[place->second.slot].resize(forms.size());
    loaded[place->second.slot][place->second.state] = entry.tensor.clone();
  }
  if (steps < 0) fail("the saved state has no number of steps; it is another file, or cut short");
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (size_t i = 0; i < loaded[s].size(); ++i) {
      if (loaded[s][i].defined()) continue;
      fail(concat("the saved state lacks '", slots_[s].parameter.name, ".", slots_[s].forms[i].name,
                  "'; resume with the same optimizer"));
    }
  }
  steps_ = steps;
  if (slots_.empty() || slots_.front().parameter.tensor.device().is_host()) {
    for (size_t s = 0; s < slots_.size(); ++s) slots_[s].states = std::move(loaded[s]);
    return;
  }
  flat();
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (size_t i = 0; i < std::min(loaded[s].size(), slots_[s].states.size()); ++i) {
      const Tensor& state = slots_[s].states[i];
      copy_memory(state.device(), state.raw(), loaded[s][i].device(), loaded[s][i].raw(), state.size_bytes());
    }
  }
  flat_->set_steps(steps);
}

StateForms a_float_each(std::vector<std::string> names) {
  return [names = std::move(names)](const Shape& parameter) {
    std::vector<StateForm> forms;
    for (const std::string& name : names) forms.push_back({name, parameter});
    return forms;
  };
}

void check_optimizer_argument(bool valid, const char* optimizer, const char* argument, double value,
                              const char* expected) {
  if (valid) return;
  throw Error(
      Status(ErrorCode::kMisuse, concat("[", optimizer, "] ", argument, " is ", value, "; give ", expected)));
}

}  // namespace dlpipe::engine
