#include "dlpipe/pipeline/plan/plan.h"

#include <array>

#include "dlpipe/base/text.h"
#include "dlpipe/pipeline/plan/record_objects.h"

namespace dlpipe::pipeline {

static constexpr size_t kMostPictures = 16;  // that one op joins

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

Status Planner::plan_substitute(const SamplePlan& bad, int32_t attempt, bool keeps_own,
                                SamplePlan& out) const {
  SampleKey key = bad.key;
  key.attempt = attempt;
  const int64_t sample = keeps_own ? bad.sample : sampler_.substitute(key.epoch, key.position, attempt);
  return fill(sample, key, out);
}

Status Planner::fill_record(int64_t sample, PlannedRecord& out) const {
  out.sample = sample;
  DLPIPE_ASSIGN_OR_RETURN(out.header, dataset_.header(sample));
  out.has_bad_header =
      channels_ > 0 && (out.header.width < 1 || out.header.height < 1 || out.header.orientation > 8);
  return {};
}

Status Planner::fill(int64_t sample, const SampleKey& key, SamplePlan& out) const {
  out.key = key;
  out.key.sample = sample;
  out.others.clear();
  DLPIPE_RETURN_IF_ERROR(fill_record(sample, out));
  if (channels_ == 0) return {};
  const auto others = static_cast<size_t>(chain_.others(out.key));
  if (others > 0) {
    if (others >= kMostPictures) {
      return Status(ErrorCode::kUnsupported, concat("[loader] an op of the chain joins ", others + 1,
                                                    " pictures; the most is ", kMostPictures));
    }
    std::array<int64_t, kMostPictures> samples{};
    sampler_.companions(key.epoch, key.position, key.attempt, std::span(samples).first(others));
    out.others.resize(others);
    for (size_t k = 0; k < others; ++k) DLPIPE_RETURN_IF_ERROR(fill_record(samples[k], out.others[k]));
  }
  bool is_bad = false;
  for (size_t k = 0; k <= others; ++k) is_bad = is_bad || out.record(k).has_bad_header;
  return is_bad || plans_late_ ? Status() : plan_chain({}, out);
}

Status Planner::plan_chain(std::span<const std::unique_ptr<RecordObjects>> objects, SamplePlan& out) const {
  std::array<augment::PlannedPicture, kMostPictures> pictures;
  for (size_t k = 0; k < out.records(); ++k) {
    const PlannedRecord& record = out.record(k);
    pictures[k] = {{record.header.width, record.header.height, channels_}, record.sample};
    if (!objects.empty()) objects[k]->give_to(pictures[k]);
  }
  const Status planned = chain_.plan(std::span(pictures).first(out.records()), out.key, out.chain);
  if (!planned.ok()) {
    // The chain's fault, whenever it is planned: no bad record, which kUnsupported would stand for.
    const ErrorCode code = planned.code() == ErrorCode::kUnsupported ? ErrorCode::kMisuse : planned.code();
    return {code, concat("[loader] sample ", out.sample, " (", out.header.width, "x", out.header.height,
                         ") of ", dataset_.directory(), ": ", planned.message())};
  }
  for (const PlannedRecord& other : out.others)  // the batch's chain covers the sample's own
    out.chain.hash = philox_mix(out.chain.hash, other.header.checksum);
  return {};
}

}  // namespace dlpipe::pipeline
