#include "dlpipe/run/train/step/step_summary.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

/// What a rank tells the others, before its losses and its reason.
struct Head {
  int64_t samples = 0;
  int64_t reason_place = 0;  // batch * all grains + grain
};

}  // namespace

StepSummary::StepSummary(int64_t grains, int64_t batches, engine::Collective* ranks,
                         engine::Collective* stages)
    : grains_(grains), batches_(batches), ranks_(ranks), stages_(stages) {
  losses_.resize(static_cast<size_t>(grains * batches));
}

void StepSummary::begin_step() {
  std::fill(losses_.begin(), losses_.end(), 0.0);
  reason_.clear();
  reason_place_ = 0;
}

void StepSummary::add(int64_t batch, int64_t grain, double loss, const std::string& reason) {
  losses_[static_cast<size_t>(batch * grains_ + grain)] = loss;
  if (reason.empty() || !reason_.empty()) return;
  reason_ = reason;
  const int64_t world = ranks_ != nullptr ? ranks_->world() : 1;
  const int64_t rank = ranks_ != nullptr ? ranks_->rank() : 0;
  reason_place_ = (batch * world + rank) * grains_ + grain;
}

std::string StepSummary::write(int64_t samples) const {
  const Head head{samples, reason_place_};
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  text.append(reinterpret_cast<const char*>(losses_.data()), losses_.size() * sizeof(double));
  return text + reason_;
}

void StepSummary::finish(StepOutcome& outcome) {
  std::vector<std::string> all = {write(outcome.samples)};
  if (ranks_ != nullptr)
    all = value_or_throw(ranks_->gather(all.front(), concat("losses of step ", outcome.step + 1)));
  outcome.samples = 0;
  outcome.loss = 0;
  int64_t first = 0;
  for (const std::string& text : all) {
    Head head;
    std::memcpy(&head, text.data(), sizeof head);
    outcome.samples += head.samples;
    const std::string reason = text.substr(sizeof head + losses_.size() * sizeof(double));
    if (reason.empty() || (!outcome.reason.empty() && head.reason_place > first)) continue;
    outcome.reason = reason;
    first = head.reason_place;
  }
  const auto parts = static_cast<double>(batches_ * grains_) * static_cast<double>(all.size());
  for (int64_t batch = 0; batch < batches_; ++batch) {
    for (const std::string& text : all) {
      for (int64_t grain = 0; grain < grains_; ++grain) {
        double loss = 0;
        const auto place = static_cast<size_t>(batch * grains_ + grain);
        std::memcpy(&loss, text.data() + sizeof(Head) + place * sizeof loss, sizeof loss);
        outcome.loss += loss / parts;
      }
    }
  }
  if (stages_ != nullptr) take_from_last_stage(outcome);
}

void StepSummary::take_from_last_stage(StepOutcome& outcome) const {
  std::string mine(reinterpret_cast<const char*>(&outcome.loss), sizeof outcome.loss);
  mine += outcome.reason;
  const std::string last =
      value_or_throw(stages_->gather(mine, concat("the loss of step ", outcome.step + 1))).back();
  std::memcpy(&outcome.loss, last.data(), sizeof outcome.loss);
  outcome.reason = last.substr(sizeof outcome.loss);
}

}  // namespace dlpipe::run
