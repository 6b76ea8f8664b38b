#include "dlpipe/run/train/split_gradients.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/optim/clip.h"
#include "dlpipe/run/train/nonfinite.h"

namespace dlpipe::run {

using engine::NamedSplit;
using engine::NamedTensor;

namespace {

/// What a rank tells the others.
struct Word {
  double norm_of_whole = 0;  // of gradients that all have
  double norm_of_parts = 0;  // of its own parts
  int64_t last_bad = -1;     // the number of the last parameter whose gradient isn't finite
};

}  // namespace

SplitGradients::SplitGradients(std::vector<NamedTensor> parameters, const engine::Module& model,
                               engine::Collective* ranks)
    : parameters_(std::move(parameters)), ranks_(ranks) {
  const std::vector<NamedSplit> splits = model.splits();
  for (const NamedTensor& parameter : parameters_) {
    const bool is_split =
        std::ranges::any_of(splits, [&](const NamedSplit& split) { return split.name == parameter.name; });
    (is_split ? parts_ : whole_).push_back(parameter);
  }
}

std::string SplitGradients::first_nonfinite(int64_t step) {
  if (ranks_ == nullptr) return first_nonfinite_gradient(parameters_);
  Word mine{engine::grad_norm(whole_), engine::grad_norm(parts_)};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!all_finite(parameters_[i].tensor.grad())) mine.last_bad = static_cast<int64_t>(i);
  }
  const std::string_view bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  const std::vector<std::string> all =
      value_or_throw(ranks_->gather(bytes, concat("the norm of the gradients of step ", step + 1)));
  Word first;
  std::memcpy(&first, all.front().data(), sizeof first);
  norm_ = first.norm_of_whole;
  int64_t last_bad = -1;
  for (const std::string& text : all) {
    Word its;
    std::memcpy(&its, text.data(), sizeof its);
    norm_ = std::hypot(norm_, its.norm_of_parts);
    last_bad = std::max(last_bad, its.last_bad);
  }
  return last_bad < 0 ? "" : concat(parameters_[static_cast<size_t>(last_bad)].name, ": its gradient");
}

void SplitGradients::clip(double max_norm) {
  if (ranks_ == nullptr) {
    engine::clip_grad_norm(parameters_, max_norm);
  } else {
    engine::clip_to_norm(parameters_, max_norm, norm_);
  }
}

}  // namespace dlpipe::run
