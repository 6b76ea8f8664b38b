#include "dlpipe/run/train/gradients/split_gradients.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/optim/clip.h"
#include "dlpipe/run/train/gradients/nonfinite.h"

namespace dlpipe::run {

using engine::NamedSplit;
using engine::NamedTensor;
using engine::Tensor;
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
    if (text.size() > sizeof its) reason = text.substr(sizeof its);  // backward reached later stages first
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

}  // namespace dlpipe::run
