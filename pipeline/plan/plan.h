// What will happen to one sample, decided before a byte of its record is touched: which record, which region
// to decode, every random number the ops will need. Where an op draws by the sample's boxes the chain is planned when the
// record is there (stages/box_planner.h), with the same numbers.
//
// A Planner is immutable and may be used from any number of threads. Plans live in the slots and are reused,
// so planning allocates nothing once the vectors have grown. Cost: a header row and the chain's draws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/rng.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/plan/sampler.h"

namespace dlpipe::pipeline {

class RecordObjects;  // record_objects.h

/// A record that is read.
struct PlannedRecord {
  int64_t sample = -1;  // of the dataset
  data::RecordHeader header;
  bool has_bad_header = false;  // a picture that can't be: a bad record, and no chain is planned
  /// Where the record stands in the map; the prefault stage finds it.
  std::span<const std::byte> stored = {};
};

/// The record is the sample's own.
struct SamplePlan : PlannedRecord {
  SampleKey key;  // seed, epoch, position, attempt: names every draw
  augment::ChainPlan
      chain;  // unused when the dataset has no image; of a planner that plans late made by BoxPlanner
  /// Where an op joins several pictures (augment/join.h), the records of the others: of chain.pictures from the second on.
  std::vector<PlannedRecord> others;

  size_t records() const { return 1 + others.size(); }
  const PlannedRecord& record(size_t i) const { return i == 0 ? *this : others[i - 1]; }
  PlannedRecord& record(size_t i) { return i == 0 ? *this : others[i - 1]; }
};

class Planner {
 public:
  /// All must outlive the planner. `channels` of the pictures as decoded; 0: the dataset has no image.
  Planner(const data::Dataset& dataset, const augment::Chain& chain, const Sampler& sampler, int channels)
      : dataset_(dataset),
        chain_(chain),
        sampler_(sampler),
        channels_(channels),
        plans_late_(channels > 0 && chain.find_boxed() != nullptr) {}

  /// plans[i] for the positions range.first + first + i.
  Status plan_portion(const BatchRange& range, int64_t first, std::span<SamplePlan> plans) const;
  /// The stand-in for `bad` at `attempt` (1, 2, ...): another sample at the same position, or the same one with other pictures
  /// beside it where `keeps_own`.
  Status plan_substitute(const SamplePlan& bad, int32_t attempt, bool keeps_own, SamplePlan& out) const;

  /// The chain wants boxes: plans have none of it yet.
  bool plans_late() const { return plans_late_; }
  /// Makes out.chain of its records, and of their objects where there are any. No record has a bad header. kMisuse where the
  /// chain can't take the pictures: it ends the stream.
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
