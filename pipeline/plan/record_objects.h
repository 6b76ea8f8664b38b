// The objects of a record, for ops of a chain that draw by them (augment's BoxedOp and PasteOp).
//
// A RecordObjects belongs to one thread and keeps its scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/mask.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::pipeline {

/// kMisuse where ops of the chain draw by fields that the dataset hasn't; `who` asks.
Status check_objects(const char* who, const augment::Chain& chain, const data::Dataset& dataset);

/// What ops of a chain draw by, of one record.
class RecordObjects {
 public:
  explicit RecordObjects(const data::DecodeLimits& limits = {}) : decoder_(limits) {}
  /// `with_masks`: the chain pastes objects, and takes their classes and the mask beside their boxes.
  Status read(const data::Dataset& dataset, std::span<const std::byte> record, int width, int height,
              bool with_masks);
  /// Refers to this object, until the next read.
  void give_to(augment::PlannedPicture& picture) const {
    picture.boxes = boxes_;
    picture.labels = labels_;
    picture.mask = mask_;
  }

 private:
  std::vector<float> boxes_;  // of all fields
  std::vector<int64_t> labels_;
  data::MaskDecoder decoder_;
  std::vector<uint8_t>
      pixels_;  // the mask's: a raw one would lie in the record, which goes when the next is read
  ConstImageView mask_;
};

}  // namespace dlpipe::pipeline
