#include "dlpipe/pipeline/plan/record_objects.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dlpipe/base/refuse.h"

namespace dlpipe::pipeline {

using Kind = data::FieldKind;

Status check_objects(const char* who, const augment::Chain& chain, const data::Dataset& dataset) {
  const auto count_of = [&](Kind kind) {
    return std::count_if(dataset.fields().begin(), dataset.fields().end(),
                         [&](const data::Field& field) { return field.kind == kind; });
  };
  const augment::OpRecord* const sees = chain.find_boxed();
  const augment::OpRecord* const paste = chain.find_paste();
  if (paste != nullptr && (count_of(Kind::kBoxes) != 1 || count_of(Kind::kMask) != 1))
    return misuse(who, "--augment has ", paste->name, ", which takes one field of boxes and one mask, and ",
                  dataset.directory(), " has ", count_of(Kind::kBoxes), " and ", count_of(Kind::kMask),
                  "; leave it out");
  if (sees != nullptr && count_of(Kind::kBoxes) == 0)
    return misuse(who, "--augment has ", sees->name, ", which draws by boxes, and ", dataset.directory(),
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
