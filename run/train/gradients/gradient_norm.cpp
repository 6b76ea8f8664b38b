#include "run/train/gradients/gradient_norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/text.h"
#include "dlpipe/module.h"
#include "engine/optim/gradients.h"

namespace dlpipe::run {

namespace {

using engine::Module;
using engine::NamedTensor;
using engine::Tensor;

// An IEEE number is not finite when all bits of its exponent are set. Without branches, so that it vectorises.
template <class Bits>
bool bits_finite(const Bits* bits, int64_t count, Bits exponent) {
  Bits found = 0;
  for (int64_t i = 0; i < count; ++i) found |= static_cast<Bits>((bits[i] & exponent) == exponent);
  return found == 0;
}

}  // namespace

bool all_finite(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype())) return true;
  const bool is_flat = tensor.layout() != engine::Layout::kPlain || tensor.is_contiguous();
  const Tensor on_host = (is_flat ? tensor : tensor.contiguous_copy());
  const Tensor flat = tensor.device().is_host() ? on_host : on_host.to(cpu_device());
  switch (flat.dtype()) {
    case DType::kF64:
      return bits_finite(static_cast<const uint64_t*>(flat.raw()), flat.elements(),
                         uint64_t{0x7ff0000000000000});
    case DType::kBF16:
      return bits_finite(static_cast<const uint16_t*>(flat.raw()), flat.elements(), uint16_t{0x7f80});
    case DType::kF16:
      return bits_finite(static_cast<const uint16_t*>(flat.raw()), flat.elements(), uint16_t{0x7c00});
    default:
      return bits_finite(static_cast<const uint32_t*>(flat.raw()), flat.elements(), uint32_t{0x7f800000});
  }
}

bool all_finite(std::span<const float> values) {
  return bits_finite(reinterpret_cast<const uint32_t*>(values.data()), static_cast<int64_t>(values.size()),
                     uint32_t{0x7f800000});
}

std::string first_nonfinite_input(Module& model, const Tensor& pixels) {
  for (const NamedTensor& named : model.state_dict()) {
    if (!all_finite(named.tensor)) return concat(named.name, ": the weights");
  }
  return all_finite(pixels) ? "" : "the model's input";
}

std::string first_nonfinite_output(Module& model, const Tensor& pixels) {
  std::string found;
  const engine::HookScope hooks(
      model, [&found](const std::string& name, Module& module, const Tensor&, const Tensor& y) {
        if (found.empty() && module.children().empty() && !all_finite(y)) {
          found = concat(name.empty() ? "the model" : name, " (", module.kind(), "): its output");
        }
      });
  const engine::NoGrad no_grad;
  const Tensor y = model(pixels);
  if (found.empty() && !all_finite(y)) found = "the model's output";
  return found;
}

std::string first_nonfinite_gradient(std::span<const NamedTensor> parameters) {
  for (size_t i = parameters.size(); i-- > 0;) {
    if (!all_finite(parameters[i].tensor.grad())) return concat(parameters[i].name, ": its gradient");
  }
  return "";
}

using engine::NamedSplit;
using engine::Tie;

SplitGradients::SplitGradients(const engine::Module& model, const engine::Collective* tensor_ranks,
                               engine::Collective* replica_ranks, bool clips)
    : parameters_(model.parameters()), ties_(model.ties()), ranks_(replica_ranks), clips_(clips) {
  const std::vector<NamedSplit> splits = model.splits();
  const bool is_first_part = tensor_ranks == nullptr || tensor_ranks->rank() == 0;
  for (const NamedTensor& parameter : parameters_) {
    const std::string& name = parameter.name;
    const bool is_split =
        std::ranges::any_of(splits, [&](const NamedSplit& split) { return split.name == name; });
    const bool is_an_others = std::ranges::any_of(
        ties_, [&](const Tie& tie) { return tie.parameter.name == name && tie.ranks->rank() > 0; });
    if ((is_split || is_first_part) && !is_an_others) counted_.push_back(parameter);
  }
}

void SplitGradients::add_up_ties(int64_t step) {
  for (Tie& tie : ties_) {
    Tensor& parameter = tie.parameter.tensor;
    if (!parameter.requires_grad()) continue;
    const Tensor own = parameter.grad();
    Tensor sum = own.defined() ? own.contiguous_copy() : Tensor::zeros(parameter.shape());
    const std::span<float> values(sum.data<float>(), static_cast<size_t>(sum.elements()));
    throw_if_error(
        tie.ranks->all_reduce(values, concat("gradients of step ", step + 1, ": ", tie.parameter.name))
            .wait());
    parameter.set_grad(sum);
  }
}

std::string SplitGradients::first_nonfinite(int64_t step) {
  std::string own = first_nonfinite_gradient(parameters_);
  if (ranks_ == nullptr) return own;
  const double norm = clips_ ? engine::grad_norm(counted_) : 0;
  std::string mine(reinterpret_cast<const char*>(&norm), sizeof norm);
  mine += own;
  std::string reason;
  norm_ = 0;
  for (const std::string& text :
       value_or_throw(ranks_->gather(mine, concat("the norm of the gradients of step ", step + 1)))) {
    double its = 0;
    std::memcpy(&its, text.data(), sizeof its);
    norm_ = std::hypot(norm_, its);
    if (text.size() > sizeof its) reason = text.substr(sizeof its);  // of the last stage, first in backward
  }
  return reason;
}

void SplitGradients::clip(double max_norm) {
  if (ranks_ == nullptr) {
    engine::clip_grad_norm(parameters_, max_norm);
  } else {
    engine::clip_to_norm(parameters_, max_norm, norm_);
  }
}

namespace {

constexpr double kNone = -1;

/// The number of the last parameter with a share that is not finite; kNone if all are finite.
double last_bad(std::span<const engine::Tensor> gradients) {
  for (size_t i = gradients.size(); i-- > 0;) {
    if (!all_finite(gradients[i])) return static_cast<double>(i);
  }
  return kNone;
}

}  // namespace

SharedGradients::SharedGradients(std::vector<engine::NamedTensor> parameters,
                                 std::vector<engine::Share> shares, engine::Collective& ranks)
    : parameters_(std::move(parameters)), shares_(std::move(shares)), ranks_(ranks) {}

// Each sum of squares is computed on one rank and is 0 on all others, so adding them up is exact.
std::string SharedGradients::first_nonfinite(int64_t step, std::span<const engine::Tensor> gradients) {
  std::vector<double> mine = engine::grad_squares({parameters_, shares_, gradients});
  mine.push_back(last_bad(gradients));
  const std::string_view bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double));
  const std::vector<std::string> all =
      value_or_throw(ranks_.gather(bytes, concat("the norm of the gradients of step ", step + 1)));
  std::vector<double> squares(mine.size() - 1, 0.0);
  double bad = kNone;
  std::vector<double> its(mine.size());
  for (const std::string& one : all) {
    if (one.size() != bytes.size())
      throw Error(Status(ErrorCode::kInternal, "[train] ranks divide different gradients"));
    std::memcpy(its.data(), one.data(), one.size());
    for (size_t i = 0; i < squares.size(); ++i) squares[i] += its[i];
    bad = std::max(bad, its.back());
  }
  norm_ = engine::norm_of_squares(squares);
  return bad == kNone ? "" : concat(parameters_[static_cast<size_t>(bad)].name, ": its gradient");
}

void SharedGradients::clip(double max_norm, std::span<const engine::Tensor> gradients) {
  engine::clip_to_norm({parameters_, shares_, gradients}, max_norm, norm_);
}

}  // namespace dlpipe::run
