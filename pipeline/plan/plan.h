// Plans one sample before a byte of its record is read: which record, which region to decode, every random
// number that the ops need. If an op draws depending on the sample's boxes, the chain is planned once the
// record is read (BoxPlanner, stages/sample_worker.h), with the same numbers.
//
// A Planner is immutable and may be used from any number of threads. Plans live in the slots and are reused, so planning
// allocates nothing once the vectors have grown. Cost: a header row and the chain's draws. A RecordObjects belongs to one
// thread and keeps its scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/augment.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "dlpipe/random.h"
#include "io/data/codec/mask.h"
#include "pipeline/plan/sampler.h"

namespace dlpipe::pipeline {

/// kMisuse if ops of the chain draw depending on fields that the dataset does not have; `who` is the error's area.
Status check_objects(const char* who, const augment::Chain& chain, const data::Dataset& dataset);

/// The objects of one record, for ops that draw depending on them.
class RecordObjects {
 public:
  explicit RecordObjects(const data::DecodeLimits& limits = {}) : decoder_(limits) {}
  /// `with_masks`: the chain pastes objects, and needs their classes and the mask as well as their boxes.
  Status read(const data::Dataset& dataset, std::span<const std::byte> record, int width, int height,
              bool with_masks);
  /// Refers to this object; valid until the next read.
  void give_to(augment::PlannedImage& image) const {
    image.boxes = boxes_;
    image.labels = labels_;
    image.mask = mask_;
  }

 private:
  std::vector<float> boxes_;  // of all fields
  std::vector<int64_t> labels_;
  data::MaskDecoder decoder_;
  std::vector<uint8_t>
      pixels_;  // the mask's pixels; a raw mask would be in the record, which is invalid after the next read
  ConstImageView mask_;
};

/// A record to be read.
struct PlannedRecord {
  int64_t sample = -1;  // of the dataset
  data::RecordHeader header;
  bool has_bad_header = false;  // impossible size or orientation: a bad record, and no chain is planned
  /// Where the record is in the map; set by the prefault stage.
  std::span<const std::byte> stored = {};
};

/// The base class is the sample's own record.
struct SamplePlan : PlannedRecord {
  SampleKey key;  // seed, epoch, position, attempt: names every draw
  augment::ChainPlan
      chain;  // unused if the dataset has no image; filled by BoxPlanner if the planner plans late
  /// If an op joins several images (augment's JoinOp): the other images' records, in the order of chain.images from index 1 on.
  std::vector<PlannedRecord> others;

  size_t records() const { return 1 + others.size(); }
  const PlannedRecord& record(size_t i) const { return i == 0 ? *this : others[i - 1]; }
  PlannedRecord& record(size_t i) { return i == 0 ? *this : others[i - 1]; }
};

class Planner {
 public:
  /// All arguments must outlive the planner. `channels` of the images as decoded; 0: the dataset has no image.
  Planner(const data::Dataset& dataset, const augment::Chain& chain, const Sampler& sampler, int channels)
      : dataset_(dataset),
        chain_(chain),
        sampler_(sampler),
        channels_(channels),
        plans_late_(channels > 0 && chain.find_boxed() != nullptr) {}

  /// Fills plans[i] for position range.first + first + i.
  Status plan_portion(const BatchRange& range, int64_t first, std::span<SamplePlan> plans) const;
  /// The substitute for `bad` at `attempt` (1, 2, ...): another sample at the same position, or with `keeps_own` the same one
  /// joined with other images.
  Status plan_substitute(const SamplePlan& bad, int32_t attempt, bool keeps_own, SamplePlan& out) const;

  /// Whether the chain needs boxes, so that plans do not include it yet.
  bool plans_late() const { return plans_late_; }
  /// Plans out.chain from its records, and from their objects if there are any. No record may have a bad header. kMisuse if the
  /// chain can't process the images; this ends the stream.
  Status plan_chain(std::span<const std::unique_ptr<RecordObjects>> objects, SamplePlan& out) const;

 private:
  Status fill(int64_t sample, const SampleKey& key, SamplePlan& out) const;
  Status fill_record(int64_t sample, PlannedRecord& out) const;

  const data::Dataset& dataset_;
  const augment::Chain& chain_;
  const Sampler& sampler_;
  int channels_;
  bool plans_late_;
};

}  // namespace dlpipe::pipeline
