#include "dlpipe/run/train/gradients/shared_gradients.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "dlpipe/base/text.h"
#include "dlpipe/run/train/gradients/nonfinite.h"

namespace dlpipe::run {

namespace {

constexpr double kNone = -1;

/// The number of the last parameter whose share isn't finite; kNone.
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

// Each sum of squares is one rank's and 0 on all others, so adding them up changes no bit.
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
      throw Error(Status(ErrorCode::kInternal, "[train] ranks share out different gradients"));
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
