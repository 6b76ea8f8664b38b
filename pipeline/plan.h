// What will happen to one sample, decided before a byte of its record is touched: which record, which region
// to decode, every random number the ops will need.
//
// A Planner is immutable and may be used from any number of threads. Plans live in the slots and are reused,
// so planning allocates nothing once the vectors have grown. Cost: a header row and the chain's draws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/rng.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/sampler.h"

namespace dlpipe::pipeline {

struct SamplePlan {
  SampleKey key;        // seed, epoch, position, attempt: names every draw
  int64_t sample = -1;  // record of the dataset
  data::RecordHeader header;
  bool has_bad_header = false;  // a picture that can't be: a bad record, without a plan
  augment::ChainPlan chain;     // unused when the dataset has no image
  /// Where the record stands in the map; the prefault stage finds it.
  std::span<const std::byte> stored = {};
};

class Planner {
 public:
  /// All must outlive the planner. `channels` of the pictures as decoded; 0: the dataset has no image.
  Planner(const data::Dataset& dataset, const augment::Chain& chain, const Sampler& sampler, int channels)
      : dataset_(dataset), chain_(chain), sampler_(sampler), channels_(channels) {}

  /// plans[i] for the positions range.first + first + i.
  Status plan_portion(const BatchRange& range, int64_t first, std::span<SamplePlan> plans) const;
  /// The stand-in for `bad` at `attempt` (1, 2, ...): another sample at the same position.
  Status plan_substitute(const SamplePlan& bad, int32_t attempt, SamplePlan& out) const;

 private:
  Status fill(int64_t sample, const SampleKey& key, SamplePlan& out) const;

  const data::Dataset& dataset_;
  const augment::Chain& chain_;
  const Sampler& sampler_;
  int channels_;
};

}  // namespace dlpipe::pipeline
