#include "dlpipe/optim.h"
#include "engine/optim/flat_groups.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/core/device_memory.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kRun = kShareUnit;  // elements: four arrays of it fit in a core's L2
constexpr const char* kSteps = "steps";

[[noreturn]] void fail(const std::string& message) {
  refuse("optimizer", message);
}

/// The contiguous gradient, or undefined if there is none.
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
    Slot slot = {};
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

Shape ElementwiseOptimizer::Slot::state_shape(const StateForm& form) const {
  return share ? Shape{divide_up(share->count(), form.block)} : form.shape;
}

void ElementwiseOptimizer::keep(const std::vector<Share>& shares) {
  for (size_t s = 0; s < slots_.size(); ++s) {
    Slot& slot = slots_[s];
    const Share& share = shares.at(s);
    const int64_t elements = slot.parameter.tensor.elements();
    const bool is_cut_well = share.begin % kRun == 0 && (share.end % kRun == 0 || share.end == elements);
    if (slot.whole) fail(concat("'", slot.parameter.name, "' is updated whole; it can't be sharded"));
    if (share.begin < 0 || share.count() < 0 || share.end > elements || !is_cut_well)
      fail(concat("the share ", share.begin, " to ", share.end, " of '", slot.parameter.name,
                  "' must be within its ", elements, " elements and begin and end at multiples of ", kRun));
    slot.share = share;
  }
}

// Counts the runs of all processes in `key`, so that a run's key doesn't depend on the process that updates it.
void ElementwiseOptimizer::append_runs(Slot& slot, const float* gradients, int64_t first, int64_t run_length,
                                       std::vector<ElementRun>* runs, uint32_t* key) {
  const Tensor& weights = slot.parameter.tensor;
  for (size_t i = slot.states.size(); i < slot.forms.size(); ++i)
    slot.states.push_back(Tensor::zeros(slot.state_shape(slot.forms[i]), slot.forms[i].dtype));
  ElementRun run;
  run.lr_scale = slot.lr_scale;
  run.decay_scale = slot.decay_scale;
  const int64_t last = slot.share ? slot.share->end : weights.elements();
  for (int64_t begin = 0; begin < weights.elements(); begin += run_length) {
    run.key = (*key)++;
    if (begin < slot.begin() || begin >= last) continue;
    run.weights = weights.data<float>() + begin;
    run.gradients = gradients + (begin - first);
    for (size_t i = 0; i < slot.states.size(); ++i) {
      const auto bytes = static_cast<int64_t>(dtype_size(slot.forms[i].dtype));
      const int64_t offset = (begin - slot.begin()) / slot.forms[i].block * bytes;
      run.states[i] = static_cast<std::byte*>(slot.states[i].raw()) + offset;
    }
    run.count = std::min(run_length, weights.elements() - begin);
    runs->push_back(run);
  }
}

ElementwiseOptimizer::~ElementwiseOptimizer() = default;

int64_t ElementwiseOptimizer::steps() const {
  return flat_ != nullptr ? flat_->steps() : steps_;
}

void ElementwiseOptimizer::update_flat(const FlatPart&) const {
  throw Error(
      Status(ErrorCode::kUnsupported, concat("[optimizer] this optimizer can't run on a device; use one of ",
                                             names_on_device(OptimizerRegistry::builtin()))));
}

// Moves the parameters that aren't frozen to flat groups at the first call.
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
      step, [this](const FlatPart& part) { update_flat(part); },
      [this](const FlatWhole& whole) { update_whole_on_device(whole); });
}

void ElementwiseOptimizer::step(double lr) {
  std::vector<Tensor> gradients;
  for (Slot& slot : slots_) {
    gradients.push_back(checked_gradient(slot.parameter));
    if (gradients.back().defined()) slot.parameter.tensor.set_grad(gradients.back());
  }
  step_with(lr, gradients, false);
}

void ElementwiseOptimizer::step_shares(double lr, std::span<const Tensor> gradients) {
  if (gradients.size() != slots_.size())
    fail(concat("got ", gradients.size(), " gradients of shares for ", slots_.size(), " parameters"));
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Tensor& grad = gradients[s];
    if (!grad.defined()) continue;
    const std::string& name = slots_[s].parameter.name;
    if (!slots_[s].share) fail(concat("no share of '", name, "' is kept; call keep() first"));
    const int64_t count = slots_[s].share->count();
    if (grad.dtype() != DType::kF32 || grad.shape() != Shape{count} || !grad.is_contiguous()) {
      fail(concat("the gradient of the share of '", name, "' is ", dtype_name(grad.dtype()), " ",
                  grad.shape().to_string(), ", expected f32 [", count, "]"));
    }
  }
  step_with(lr, gradients, true);
}

void ElementwiseOptimizer::step_with(double lr, std::span<const Tensor> gradients, bool are_shares) {
  std::vector<ElementRun> runs;
  std::vector<ElementRun> wholes;
  std::vector<int64_t> rows;
  uint32_t run_key = 0, whole_key = 0;
  for (size_t s = 0; s < slots_.size(); ++s) {
    Slot& slot = slots_[s];
    const Tensor& grad = gradients[s];
    if (!grad.defined()) continue;
    const float* const values = grad.data<float>();
    if (!slot.whole) {
      append_runs(slot, values, are_shares ? slot.begin() : 0, kRun, &runs, &run_key);
    } else if (grad.elements() > 0) {
      append_runs(slot, values, 0, grad.elements(), &wholes, &whole_key);
      rows.push_back(grad.rank() > 0 ? grad.size(0) : 1);
    }
  }
  begin_step(lr, ++steps_);
  parallel_slices(static_cast<int64_t>(runs.size()),
                  [&](int64_t i) { update(runs[static_cast<size_t>(i)]); });
  for (size_t i = 0; i < wholes.size(); ++i) update_whole(wholes[i], rows[i]);
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (gradients[s].defined()) slots_[s].parameter.tensor.bump_version();
  }
}

std::vector<NamedTensor> ElementwiseOptimizer::state() const {
  const int64_t steps = this->steps();
  std::vector<NamedTensor> all = {{kSteps, Tensor::from<int64_t>({&steps, 1}, {1})}};
  for (const Slot& slot : slots_) {
    if (slot.share && slot.share->count() == 0) continue;
    const std::string end = slot.share ? concat("@", slot.share->begin) : "";
    for (size_t i = 0; i < slot.states.size(); ++i)
      all.push_back({slot.parameter.name + "." + slot.forms[i].name + end, slot.states[i]});
  }
  return all;
}

int64_t ElementwiseOptimizer::Loading::elements() const {
  int64_t sum = 0;
  for (const auto& [from, to] : parts) sum += to - from;
  return sum;
}

/// Copies the part of `entry` that is in `slot`'s share. `begin_element`: the element of the parameter that `entry` begins with;
/// none: `entry` is the whole state.
void ElementwiseOptimizer::load_entry(const Slot& slot, const StateForm& form, const NamedTensor& entry,
                                      std::optional<int64_t> begin_element, Loading* loading) {
  const int64_t begin = begin_element.value_or(0) / form.block;
  const int64_t all = form.shape.elements(), count = entry.tensor.elements();
  const bool fits = begin_element ? begin >= 0 && begin + count <= all : entry.tensor.shape() == form.shape;
  if (!fits || entry.tensor.dtype() != form.dtype) {
    fail(concat("the saved '", entry.name, "' is ", dtype_name(entry.tensor.dtype()), " ",
                entry.tensor.shape().to_string(), ", expected ", dtype_name(form.dtype), " ",
                form.shape.to_string(), "; resume with the same model"));
  }
  if (!loading->tensor.defined()) loading->tensor = Tensor::zeros(slot.state_shape(form), form.dtype);
  const int64_t own_begin = slot.begin() / form.block, own_end = own_begin + loading->tensor.elements();
  const int64_t from = std::max(begin, own_begin), to = std::min(begin + count, own_end);
  if (from >= to) return;
  for (const auto& [first, second] : loading->parts) {
    if (from < second && first < to)
      fail(concat("the saved '", entry.name, "' has elements that are also in another part; it is corrupt"));
  }
  loading->parts.emplace_back(from, to);
  const Tensor plain = entry.tensor.contiguous_copy();
  const auto bytes = dtype_size(form.dtype);
  copy_memory(loading->tensor.device(),
              static_cast<std::byte*>(loading->tensor.raw()) + static_cast<size_t>(from - own_begin) * bytes,
              plain.device(),
              static_cast<const std::byte*>(plain.raw()) + static_cast<size_t>(from - begin) * bytes,
              static_cast<size_t>(to - from) * bytes);
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
  std::vector<std::vector<Loading>> loaded(slots_.size());
  for (const NamedTensor& entry : state) {
    if (entry.name == kSteps && entry.tensor.elements() == 1) {
      const auto its_steps = static_cast<int64_t>(entry.tensor.item());
      if (steps >= 0 && its_steps != steps)
        fail(concat("parts of the saved state are from step ", steps, " and from step ", its_steps,
                    "; use another checkpoint"));
      steps = its_steps;
      continue;
    }
    auto place = places.find(entry.name);
    std::optional<int64_t> begin;  // of a share, NAME@BEGIN; a parameter's name may contain an @, too
    if (const size_t at = entry.name.rfind('@'); place == places.end() && at != std::string::npos) {
      place = places.find(entry.name.substr(0, at));
      if (place != places.end() && !parse_int(std::string_view(entry.name).substr(at + 1), &begin.emplace()))
        fail(concat("the saved '", entry.name, "' has no number after its @; it is corrupt"));
    }
    if (place == places.end())
      fail(concat("the saved state has '", entry.name,
                  "', which this optimizer doesn't have; resume with the same one"));
    const Slot& slot = slots_[place->second.slot];
    loaded[place->second.slot].resize(slot.forms.size());
    load_entry(slot, slot.forms[place->second.state], entry, begin,
               &loaded[place->second.slot][place->second.state]);
  }
  if (steps < 0) fail("the saved state lacks its step count; it is another file, or truncated");
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (size_t i = 0; i < loaded[s].size(); ++i) {
      const Loading& loading = loaded[s][i];
      if (loading.tensor.defined() && loading.elements() == loading.tensor.elements()) continue;
      fail(concat("the saved state lacks '", slots_[s].parameter.name, ".", slots_[s].forms[i].name,
                  loading.tensor.defined() ? "' in part" : "'", "; resume with the same optimizer"));
    }
  }
  steps_ = steps;
  if (slots_.empty() || slots_.front().parameter.tensor.device().is_host()) {
    for (size_t s = 0; s < slots_.size(); ++s) {
      slots_[s].states.clear();
      for (Loading& loading : loaded[s]) slots_[s].states.push_back(std::move(loading.tensor));
    }
    return;
  }
  flat();
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (size_t i = 0; i < slots_[s].states.size(); ++i) {
      const Tensor& to = slots_[s].states[i];
      // Missing states begin at zero, as they do on the host with the parameter's first gradient.
      const Tensor from = i < loaded[s].size() ? loaded[s][i].tensor : Tensor::zeros(to.shape(), to.dtype());
      copy_memory(to.device(), to.raw(), from.device(), from.raw(), to.size_bytes());
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
  refuse(optimizer, argument, " is ", value, "; give ", expected);
}

}  // namespace dlpipe::engine
