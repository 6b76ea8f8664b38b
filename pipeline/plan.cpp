#include "dlpipe/pipeline/plan.h"

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

Status Planner::plan_portion(const BatchRange& range, int64_t first, std::span<SamplePlan> plans) const {
  const Sampler::Order order = sampler_.order(range.epoch);
  const int64_t begin = range.first + first;
  // Header rows lie anywhere: all are on their way before the first is read.
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].sample = order.sample(begin + static_cast<int64_t>(i));
    dataset_.prefetch_header(plans[i].sample);
  }
  for (size_t i = 0; i < plans.size(); ++i) {
    const int64_t position = begin + static_cast<int64_t>(i);
    DLPIPE_RETURN_IF_ERROR(
        fill(plans[i].sample, {sampler_.options().seed, range.epoch, position, 0, 0}, plans[i]));
  }
  return {};
}

Status Planner::plan_substitute(const SamplePlan& bad, int32_t attempt, SamplePlan& out) const {
  SampleKey key = bad.key;
  key.attempt = attempt;
  return fill(sampler_.substitute(key.epoch, key.position, attempt), key, out);
}

Status Planner::fill(int64_t sample, const SampleKey& key, SamplePlan& out) const {
  out.key = key;
  out.key.sample = sample;
  out.sample = sample;
  DLPIPE_ASSIGN_OR_RETURN(out.header, dataset_.header(sample));
  if (channels_ == 0) return {};
  out.has_bad_header = out.header.width < 1 || out.header.height < 1 || out.header.orientation > 8;
  if (out.has_bad_header) return {};
  const Status planned = chain_.plan({out.header.width, out.header.height, channels_}, out.key, out.chain);
  if (planned.ok()) return {};
  return planned.with_context(concat("[loader] sample ", sample, " (", out.header.width, "x",
                                     out.header.height, ") of ", dataset_.directory(), ": "));
}

}  // namespace dlpipe::pipeline
