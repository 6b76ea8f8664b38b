#include "pipeline/plan/plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::pipeline {

static constexpr size_t kMostImages = 16;  // that one op joins

Status Planner::plan_portion(const BatchRange& range, int64_t first, std::span<SamplePlan> plans) const {
  const Sampler::Order order = sampler_.order(range.epoch);
  const int64_t begin = range.first + first;
  // Header rows are scattered: all are prefetched before the first is read.
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
    if (others >= kMostImages) {
      return Status(ErrorCode::kUnsupported, concat("[loader] an op of the chain joins ", others + 1,
                                                    " images; the limit is ", kMostImages));
    }
    std::array<int64_t, kMostImages> samples{};
    sampler_.companions(key.epoch, key.position, key.attempt, std::span(samples).first(others));
    out.others.resize(others);
    for (size_t k = 0; k < others; ++k) DLPIPE_RETURN_IF_ERROR(fill_record(samples[k], out.others[k]));
  }
  bool is_bad = false;
  for (size_t k = 0; k <= others; ++k) is_bad = is_bad || out.record(k).has_bad_header;
  return is_bad || plans_late_ ? Status() : plan_chain({}, out);
}

Status Planner::plan_chain(std::span<const std::unique_ptr<RecordObjects>> objects, SamplePlan& out) const {
  std::array<augment::PlannedImage, kMostImages> images;
  for (size_t k = 0; k < out.records(); ++k) {
    const PlannedRecord& record = out.record(k);
    images[k] = {{record.header.width, record.header.height, channels_}, record.sample};
    if (!objects.empty()) objects[k]->give_to(images[k]);
  }
  const Status planned = chain_.plan(std::span(images).first(out.records()), out.key, out.chain);
  if (!planned.ok()) {
    // An error of the chain, whether it is planned early or late. kUnsupported would mean a bad record, so it becomes kMisuse.
    const ErrorCode code = planned.code() == ErrorCode::kUnsupported ? ErrorCode::kMisuse : planned.code();
    return {code, concat("[loader] sample ", out.sample, " (", out.header.width, "x", out.header.height,
                         ") of ", dataset_.directory(), ": ", planned.message())};
  }
  for (const PlannedRecord& other : out.others)  // the batch's chain covers the sample's own record
    out.chain.hash = philox_mix(out.chain.hash, other.header.checksum);
  return {};
}

// --- the objects of a record, which draws may depend on

using Kind = data::FieldKind;

Status check_objects(const char* who, const augment::Chain& chain, const data::Dataset& dataset) {
  const auto count_of = [&](Kind kind) {
    return std::count_if(dataset.fields().begin(), dataset.fields().end(),
                         [&](const data::Field& field) { return field.kind == kind; });
  };
  const augment::OpRecord* const sees = chain.find_boxed();
  const augment::OpRecord* const paste = chain.find_paste();
  if (paste != nullptr && (count_of(Kind::kBoxes) != 1 || count_of(Kind::kMask) != 1))
    return misuse(who, "--augment has ", paste->name, ", which needs one field of boxes and one mask, but ",
                  dataset.directory(), " has ", count_of(Kind::kBoxes), " and ", count_of(Kind::kMask),
                  "; leave it out");
  if (sees != nullptr && count_of(Kind::kBoxes) == 0)
    return misuse(who, "--augment has ", sees->name, ", which needs boxes, but ", dataset.directory(),
                  " has no field of boxes; use rrc or random_crop");
  return {};
}

/// Appends the whole rows of `row` values.
template <class T>
static void append(std::span<const std::byte> bytes, size_t row, std::vector<T>& values) {
  const size_t count = bytes.size() / (row * sizeof(T)) * row;
  const size_t before = values.size();
  values.resize(before + count);
  if (count > 0) std::memcpy(values.data() + before, bytes.data(), count * sizeof(T));
}

Status RecordObjects::read(const data::Dataset& dataset, std::span<const std::byte> record, int width,
                           int height, bool with_masks) {
  boxes_.clear();
  labels_.clear();
  mask_ = {};
  std::string boxes;  // name
  for (const data::Field& field : dataset.fields()) {
    if (field.kind == Kind::kBoxes) boxes = field.name;
  }
  for (const data::Field& field : dataset.fields()) {
    const bool is_class = field.kind == Kind::kLabels && field.of == boxes && !boxes.empty();
    const bool is_taken =
        field.kind == Kind::kBoxes || (with_masks && (is_class || field.kind == Kind::kMask));
    if (!is_taken) continue;
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                            data::field_bytes(dataset, record, field.name));
    if (field.kind == Kind::kBoxes) append(bytes, 4, boxes_);
    if (field.kind == Kind::kLabels) append(bytes, 1, labels_);
    if (field.kind != Kind::kMask || bytes.empty()) continue;
    DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_mask(bytes));
    DLPIPE_RETURN_IF_ERROR(data::check_mask_size(info, width, height));
    DLPIPE_ASSIGN_OR_RETURN(const ConstImageView mask, decoder_.decode(bytes));
    pixels_.clear();
    for (int y = 0; y < mask.height; ++y)
      pixels_.insert(pixels_.end(), mask.row(y), mask.row(y) + mask.width);
    mask_ = {pixels_.data(), mask.width, mask.height, 1, mask.width};
  }
  return {};
}

}  // namespace dlpipe::pipeline
