#include "dlpipe/pipeline/stages/field_mover.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

using Kind = data::FieldKind;

FieldMover::FieldMover(const Setup& setup)
    : setup_(setup),
      boxes_of_(setup.schema.size(), -1),
      kept_(setup.schema.size()),
      masks_({.max_pixels = setup.options.max_pixels}) {
  for (const bool boxes : {true, false}) {
    for (size_t f = 0; f < setup.fields.size(); ++f) {
      const bool is_copied =
          static_cast<int>(f) != setup.image_field && static_cast<int>(f) != setup.label_field;
      if (is_copied && (setup.fields[f].kind == Kind::kBoxes) == boxes) order_.push_back(f);
    }
  }
  for (size_t f = 0; f < setup.fields.size(); ++f) {
    const Kind kind = setup.fields[f].kind;
    moves_ = moves_ || (setup.image_field >= 0 && (kind == Kind::kBoxes || kind == Kind::kPoints));
    for (size_t b = 0; b < setup.fields.size(); ++b) {
      if (!setup.fields[f].of.empty() && setup.fields[b].name == setup.fields[f].of)
        boxes_of_[f] = static_cast<int>(b);
    }
  }
}

bool FieldMover::is_gathered(size_t field) const {
  const Kind kind = setup_.fields[field].kind;
  return kind == Kind::kBoxes || kind == Kind::kPoints || kind == Kind::kMask || kind == Kind::kLabels ||
         boxes_of_[field] >= 0;
}

static augment::Moving moving_of(const SamplePlan& plan, size_t picture) {
  return plan.chain.is_joined() ? augment::Moving(plan.chain, picture) : augment::Moving(plan.chain);
}

Status FieldMover::put(const SamplePlan& plan, size_t picture, std::span<const std::byte> record, Slot& slot,
                       int64_t i) {
  if (setup_.label_field >= 0 && picture == 0)
    std::memcpy(slot.sample(setup_.label_field, i), &plan.header.label, sizeof plan.header.label);
  for (const size_t f : order_) {
    const FieldSpec& spec = setup_.schema[f];
    if (picture > 0 && !is_gathered(f)) continue;
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                            data::field_bytes(*setup_.dataset, record, spec.name));
    if (spec.ragged) {
      DLPIPE_RETURN_IF_ERROR(put_ragged(f, bytes, plan, picture, slot, i));
      continue;
    }
    if (setup_.fields[f].kind == Kind::kMask) {
      DLPIPE_RETURN_IF_ERROR(put_mask(f, bytes, plan, picture, slot, i));
      continue;
    }
    if (bytes.size() != spec.sample_bytes()) {
      return Status(ErrorCode::kCorrupt,
                    concat("[loader] field '", spec.name, "' of sample ", plan.sample, " has ", bytes.size(),
                           " bytes, not the ", spec.sample_bytes(), " of its schema"));
    }
    std::memcpy(slot.sample(static_cast<int>(f), i), bytes.data(), bytes.size());
  }
  return {};
}

Status FieldMover::put_mask(size_t field, std::span<const std::byte> bytes, const SamplePlan& plan,
                            size_t picture, Slot& slot, int64_t i) {
  const auto fill = static_cast<uint8_t>(setup_.options.mask_fill);
  auto* const pixels = reinterpret_cast<uint8_t*>(slot.sample(static_cast<int>(field), i));
  const augment::ImageSize& size = setup_.image_size;
  if (picture == 0) std::memset(pixels, fill, setup_.schema[field].sample_bytes());
  if (bytes.empty()) return {};
  const data::RecordHeader& header = plan.record(picture).header;
  const auto mask = [&]() -> Result<ConstImageView> {
    DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_mask(bytes));
    DLPIPE_RETURN_IF_ERROR(data::check_mask_size(info, header.width, header.height));
    return masks_.decode(bytes);
  }();
  if (!mask.ok())
    return mask.status().with_context(concat("[loader] field '", setup_.schema[field].name, "' of sample ",
                                             plan.record(picture).sample, ": "));
  moving_of(plan, picture).paint_mask(*mask, {pixels, size.width, size.height, 1, size.width});
  return {};
}

/// Leaves the rows of `row_bytes` whose `kept` isn't 0.
static void keep_rows(std::vector<std::byte>& rows, size_t row_bytes, const std::vector<uint8_t>& kept) {
  size_t to = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == 0) continue;
    if (to != i) std::memcpy(rows.data() + to * row_bytes, rows.data() + i * row_bytes, row_bytes);
    ++to;
  }
  rows.resize(to * row_bytes);
}

/// Appends the labels of `rows` that aren't there yet.
static void add_labels(std::span<const std::byte> rows, std::vector<std::byte>& all) {
  for (size_t at = 0; at + sizeof(int64_t) <= rows.size(); at += sizeof(int64_t)) {
    const std::span<const std::byte> one = rows.subspan(at, sizeof(int64_t));
    bool is_there = false;
    for (size_t k = 0; k < all.size() && !is_there; k += sizeof(int64_t))
      is_there = std::memcmp(all.data() + k, one.data(), sizeof(int64_t)) == 0;
    if (!is_there) all.insert(all.end(), one.begin(), one.end());
  }
}

Status FieldMover::put_ragged(size_t field, std::span<const std::byte> bytes, const SamplePlan& plan,
                              size_t picture, Slot& slot, int64_t i) {
  const FieldSpec& spec = setup_.schema[field];
  const size_t row_bytes = spec.sample_bytes();
  const int64_t sample = plan.record(picture).sample;
  if (bytes.size() % row_bytes != 0) {
    return Status(ErrorCode::kCorrupt,
                  concat("[loader] field '", spec.name, "' of sample ", sample, " has ", bytes.size(),
                         " bytes, no whole number of rows of ", row_bytes));
  }
  std::vector<std::byte>& all = slot.rows(static_cast<int>(field), i);
  if (picture == 0) all.clear();
  const Kind kind = setup_.fields[field].kind;
  const int boxes = kind == Kind::kBoxes ? static_cast<int>(field) : boxes_of_[field];
  if (kind == Kind::kLabels && boxes < 0 && plan.chain.is_joined()) {
    const bool is_own = picture == 0 || !plan.chain.pastes;  // pasted objects needn't be all that it shows
    if (is_own && plan.chain.pictures[picture].needed.width > 0) add_labels(bytes, all);
    return {};
  }
  rows_.assign(bytes.begin(), bytes.end());
  if (moves_ && (kind == Kind::kBoxes || kind == Kind::kPoints)) {
    const augment::Moving moving = moving_of(plan, picture);
    numbers_.resize(rows_.size() / sizeof(float));
    if (!rows_.empty()) std::memcpy(numbers_.data(), rows_.data(), rows_.size());
    if (kind == Kind::kBoxes) moving.boxes(numbers_, kept_[field]);
    if (kind == Kind::kPoints) moving.points(numbers_);
    if (!rows_.empty()) std::memcpy(rows_.data(), numbers_.data(), rows_.size());
  }
  if (moves_ && boxes >= 0) {
    const std::vector<uint8_t>& kept = kept_[static_cast<size_t>(boxes)];
    if (rows_.size() != kept.size() * row_bytes) {
      return Status(ErrorCode::kCorrupt,
                    concat("[loader] field '", spec.name, "' of sample ", sample, " has ",
                           rows_.size() / row_bytes, " rows for ", kept.size(), " boxes"));
    }
    keep_rows(rows_, row_bytes, kept);
  }
  all.insert(all.end(), rows_.begin(), rows_.end());
  return {};
}

}  // namespace dlpipe::pipeline
