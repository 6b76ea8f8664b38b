// Part of the stage "augmenter": a sample's fields besides its picture, from the record into the slot. Boxes and points move
// with the picture; what is of a box that is dropped goes with it (augment/moving.h has the rules).
//
// An object belongs to one thread and keeps its scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/augment/moving.h"
#include "dlpipe/base/error.h"
#include "dlpipe/io/data/codec/mask.h"
#include "dlpipe/pipeline/plan/plan.h"
#include "dlpipe/pipeline/plan/setup.h"
#include "dlpipe/pipeline/plan/slot.h"

namespace dlpipe::pipeline {

class FieldMover {
 public:
  explicit FieldMover(const Setup& setup);

  /// kCorrupt where a field hasn't the size that its schema says. Of a joined plan once for each picture, in order: boxes,
  /// points, what is of them, masks and multi-labels come together, all else is the sample's own.
  Status put(const SamplePlan& plan, size_t picture, std::span<const std::byte> record, Slot& slot,
             int64_t i);
  size_t scratch_bytes() const { return masks_.scratch_bytes(); }

 private:
  Status put_mask(size_t field, std::span<const std::byte> bytes, const SamplePlan& plan, size_t picture,
                  Slot& slot, int64_t i);
  Status put_ragged(size_t field, std::span<const std::byte> bytes, const SamplePlan& plan, size_t picture,
                    Slot& slot, int64_t i);
  /// Whether a joined picture has it of all pictures.
  bool is_gathered(size_t field) const;

  const Setup& setup_;
  std::vector<size_t> order_;               // of the schema's fields: boxes first, without image and label
  std::vector<int> boxes_of_;               // [schema] the field of boxes that it is of; -1: none
  bool moves_ = false;                      // there is a picture, and what moves with it
  std::vector<std::vector<uint8_t>> kept_;  // [schema] of a field of boxes: which are left
  std::vector<std::byte> rows_;             // of one picture
  std::vector<float> numbers_;
  data::MaskDecoder masks_;
};

}  // namespace dlpipe::pipeline
