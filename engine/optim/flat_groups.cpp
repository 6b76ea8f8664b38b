#include "engine/optim/flat_groups.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"
#include "engine/core/device_code.h"
#include "engine/core/device_memory.h"
#include "engine/ops/shape_ops.h"
#include "engine/optim/gradients.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kAlign = 64;  // elements; every tensor begins at an address that vector loads need

}  // namespace

Tensor share_of(const Tensor& flat, int64_t offset, const Shape& shape) {
  return flat.view_as(shape, row_major(shape), offset);
}

FlatGroups::FlatGroups(Device& device, std::vector<Member> members, int states, bool segments)
    : device_(device), code_(*device_code(device).steps), members_(std::move(members)) {
  place_members(states);
  for (size_t g = 0; segments && g < groups_.size(); ++g) find_segments(g);
  for (size_t i = 0; i < members_.size(); ++i) {
    Tensor& parameter = members_[i].parameter.tensor;
    const Tensor share = share_of(groups_[places_[i].group].weights, places_[i].offset, parameter.shape());
    copy_memory(device_, share.raw(), device_, parameter.raw(), parameter.size_bytes());
    parameter.set_data(share);
  }
  scalars_ = Tensor::full({static_cast<int64_t>(sizeof(Scalars))}, 0, DType::kU8, device_);
  int64_t parts = 0;
  for (const Group& group : groups_) parts += cuda::norm_parts(group.count);
  parts_ = Tensor::empty({{std::max<int64_t>(parts, 1)}, DType::kF64, Layout::kPlain}, device_);
}

void FlatGroups::place_members(int states) {
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const auto same = [&](const Group& group) {
      return group.whole < 0 && !member.whole && group.lr_scale == member.lr_scale &&
             group.decay_scale == member.decay_scale;
    };
    const auto found = std::find_if(groups_.begin(), groups_.end(), same);
    const auto index = static_cast<size_t>(found - groups_.begin());
    if (found == groups_.end()) {
      const auto whole = member.whole ? static_cast<int64_t>(i) : int64_t{-1};
      groups_.push_back({member.lr_scale, member.decay_scale, whole, 0, {}, {}, {}, {}, {}, {}, {}});
    }
    places_.push_back({index, groups_[index].count});
    groups_[index].count += (member.parameter.tensor.elements() + kAlign - 1) / kAlign * kAlign;
  }
  for (Group& group : groups_) {
    const auto zeros = [&] { return Tensor::full({group.count}, 0.0, DType::kF32, device_); };
    group.weights = zeros();
    group.gradients = zeros();
    for (int i = 0; i < states; ++i) group.states.push_back(zeros());
  }
}

void FlatGroups::find_segments(size_t index) {
  Group& group = groups_[index];
  std::vector<int64_t> offsets;
  for (const Place& place : places_) {
    if (place.group == index) offsets.push_back(place.offset);
  }
  offsets.push_back(group.count);
  const auto count = static_cast<int64_t>(offsets.size()) - 1;
  group.offsets = Tensor::from<int64_t>(offsets, {count + 1}).to(device_);
  group.parts = Tensor::empty({{cuda::lamb_parts(group.count, count)}, DType::kF64, Layout::kPlain}, device_);
  group.ratios = Tensor::empty({{count}, DType::kF32, Layout::kPlain}, device_);
  group.segments = {group.offsets.data<int64_t>(), count, group.parts.data<double>(),
                    group.ratios.data<float>()};
}

bool FlatGroups::gather_gradients() {
  size_t found = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    const Tensor grad = members_[i].parameter.tensor.grad();
    if (!grad.defined()) continue;
    ++found;
    const Tensor whole = grad.is_contiguous() ? grad : grad.contiguous_copy();
    const Tensor share = share_of(groups_[places_[i].group].gradients, places_[i].offset, grad.shape());
    copy_memory(device_, share.raw(), device_, whole.raw(), share.size_bytes());
  }
  if (found == 0 || found == members_.size()) return found > 0;
  const auto missing = std::find_if(members_.begin(), members_.end(), [](const Member& member) {
    return !member.parameter.tensor.grad().defined();
  });
  throw Error(Status(ErrorCode::kUnsupported, concat("[optimizer] '", missing->parameter.name,
                                                     "' has no gradient but others have; on ", device_.name(),
                                                     " freeze unused parameters")));
}

void FlatGroups::set_rate(double lr) {
  code_.set(scalar<float>(offsetof(Scalars, lr)), static_cast<float>(lr));
}

void FlatGroups::update_whole(const Group& group, const cuda::StepScalars& scalars,
                              const WholeUpdate& update) {
  const Shape& shape = members_[static_cast<size_t>(group.whole)].parameter.tensor.shape();
  const auto number = [&](const float* at) {
    return Tensor::borrow(const_cast<float*>(at), {1}, DType::kF32, device_);
  };
  update({share_of(group.weights, 0, shape), share_of(group.gradients, 0, shape),
          share_of(group.states.at(0), 0, shape), number(scalars.lr), number(scalars.grad_scale), code_,
          scalars.found_inf, group.lr_scale, group.decay_scale});
}

DeviceStepFlags FlatGroups::step(const DeviceStep& step, const Update& update, const WholeUpdate& whole) {
  int32_t* const found_inf = scalar<int32_t>(offsetof(Scalars, found_inf));
  float* const norm = scalar<float>(offsetof(Scalars, norm));
  const float* const lr = scalar<float>(offsetof(Scalars, lr));
  int64_t parts = 0;
  const bool has_gradients = gather_gradients();
  for (const Group& group : groups_) {
    if (!has_gradients) break;
    code_.sum_squares(group.gradients.data<float>(), group.count, parts_.data<double>() + parts);
    parts += cuda::norm_parts(group.count);
  }
  const float* const loss = step.loss.defined() ? step.loss.data<float>() : nullptr;
  const cuda::LossScale loss_scale = step.scaler != nullptr ? step.scaler->loss_scale() : cuda::LossScale();
  code_.finish_norm(parts_.data<double>(), parts, {step.max_norm, loss_scale.inverse, loss},
                    {norm, scalar<float>(offsetof(Scalars, grad_scale)), found_inf,
                     step.halts ? scalar<int32_t>(offsetof(Scalars, halted)) : nullptr});
  const cuda::StepScalars scalars = {scalar<int64_t>(offsetof(Scalars, steps)), lr,
                                     scalar<float>(offsetof(Scalars, grad_scale)), found_inf,
                                     scalar<cuda::AdamCoefficients>(offsetof(Scalars, adam))};
  for (Group& group : groups_) {
    if (!has_gradients) break;
    if (group.whole >= 0) {
      update_whole(group, scalars, whole);
      continue;
    }
    cuda::FlatGroup flat;
    flat.weights = group.weights.data<float>();
    flat.gradients = group.gradients.data<float>();
    for (size_t i = 0; i < group.states.size(); ++i) flat.states[i] = group.states[i].data<float>();
    flat.count = group.count;
    update({code_, flat, scalars, group.segments, group.lr_scale, group.decay_scale});
  }
  code_.end_step(scalar<int64_t>(offsetof(Scalars, steps)), found_inf, loss_scale);
  for (Member& member : members_) member.parameter.tensor.bump_version();
  return {found_inf, norm, loss_scale.scale};
}

Tensor FlatGroups::state(size_t member, int state) const {
  return share_of(groups_[places_[member].group].states[static_cast<size_t>(state)], places_[member].offset,
                  members_[member].parameter.tensor.shape());
}

FlatGroups::Scalars FlatGroups::scalars() const {
  Scalars scalars{};
  copy_memory(cpu_device(), &scalars, device_, scalars_.raw(), sizeof scalars);
  return scalars;
}

int64_t FlatGroups::steps() const {
  return scalars().steps;
}

void FlatGroups::set_steps(int64_t steps) {
  Scalars scalars = this->scalars();
  scalars.steps = steps;
  scalars.halted = 0;
  copy_memory(device_, scalars_.raw(), cpu_device(), &scalars, sizeof scalars);
}

}  // namespace dlpipe::engine
