// Which sample is at which position of which epoch: arithmetic and a keyed permutation, no state, O(1) memory.
//
// All types are small values and pure functions of their arguments; any thread may use them. A position is a place in an
// epoch's global order, 0 .. subset.count()-1; a global batch is a run of `batch * world` positions, and a rank's batch is its
// contiguous part of it. With `views`, each sample has that many consecutive positions: 0 .. views*subset.count()-1, and
// batches are of samples with all their views.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/loader.h"  // SampleList

namespace dlpipe::pipeline {

/// A pseudo-random permutation of [0, size) chosen by a key: an alternating Feistel network over the smallest
/// power of two that holds `size`, walked along its cycle until it falls inside (Black and Rogaway, "Ciphers
/// with arbitrary finite domains", CT-RSA 2002). Fewer than two walks on average. Round keys come from
/// Philox.
class Permutation {
 public:
  Permutation(int64_t size, uint64_t seed, uint64_t stream);
  /// The same with keys that are mixed from one: some dozen multiplications instead of Philox blocks.
  Permutation(int64_t size, uint64_t key);
  /// The image of `index`, 0 <= index < size.
  int64_t operator()(int64_t index) const;
  int64_t size() const { return size_; }

 private:
  explicit Permutation(int64_t size);

  static constexpr int kMaxRounds = 24;
  int64_t size_;
  int rounds_;  // six (Luby and Rackoff need four); more if a half has few bits
  int low_bits_;
  uint64_t low_mask_;
  uint64_t high_mask_;
  std::array<uint64_t, kMaxRounds> keys_;
};

/// The samples that are used: those of a list, or all of the dataset. `--limit` reduces them to `count` of
/// `size`: the seed draws one from each of `count` equal stretches. So they stay in the dataset's order, and
/// every class of a dataset that is sorted by class keeps its share.
class Subset {
 public:
  Subset() = default;
  /// 1 <= count <= size. `chosen`: `size` numbers; null: all of the dataset, which has `size` samples.
  Subset(int64_t size, int64_t count, uint64_t seed, SampleList chosen = nullptr)
      : size_(size), count_(count), seed_(seed), chosen_(std::move(chosen)) {}
  static Subset all(int64_t size) { return {size, size, 0}; }

  int64_t count() const { return count_; }
  bool is_all() const { return count_ == size_ && chosen_ == nullptr; }
  /// The dataset's sample at place `index` of the subset, 0 <= index < count().
  int64_t sample(int64_t index) const;
  /// "300 of 1,280 samples, by seed 3"; empty for all samples. Equal texts mean equal subsets.
  std::string to_string() const;

 private:
  int64_t size_ = 0;
  int64_t count_ = 0;
  uint64_t seed_ = 0;
  SampleList chosen_;
};

/// Draws samples by group (class) instead of once per epoch: each group has a share of the epoch's places. A share that is not
/// a whole number is met over several epochs. Each epoch gives every group the whole part of its share. The remaining places go
/// to the groups at evenly spaced marks (systematic sampling), and the marks move by a golden section from epoch to epoch.
/// Within a group, every sample is drawn once before any is drawn again, also across epochs: draw R of a group, counted from the
/// first epoch, is place R % size of permutation R / size of its samples. So the sample at any position can be computed without
/// the ones before it, and consecutive epochs draw different samples of a large group. An epoch has as many places as samples.
class Quotas {
 public:
  /// `groups`: the group of each place of the subset, less than `weights.size()`. A group of weight w gets w / (sum of weights) of
  /// the places; groups without samples get none.
  Quotas(std::span<const int32_t> groups, std::span<const double> weights);
  /// The place of the subset at position `place` of an epoch, 0 <= place < number of places. `key` comes from the sampler's
  /// seed. O(log groups).
  int64_t sample(int64_t place, int64_t epoch, uint64_t key) const;
  /// Whether any group has a place.
  bool has_places() const { return !whole_.empty() && (whole_.back() > 0 || parts_.back() > 0); }

 private:
  /// Parts of a place. Shares are exact to one of them.
  static constexpr int64_t kParts = int64_t{1} << 20;

  int64_t end(size_t group, int64_t epoch) const;  // of the group's places in the epoch
  int64_t before(size_t group,
                 int64_t epoch) const;  // draws of all groups up to this one in all earlier epochs

  std::vector<int64_t> whole_;    // whole places per epoch, cumulative over groups
  std::vector<int64_t> parts_;    // the rest of their shares, in parts, cumulative; the total is whole places
  std::vector<int64_t> begins_;   // where each group's members begin; the last element is the end
  std::vector<int64_t> members_;  // places of the subset, by group
};

struct SamplerOptions {
  Subset subset;                                   // of the dataset, by --limit
  std::shared_ptr<const Quotas> quotas = nullptr;  // null: every sample once an epoch
  int64_t batch = 1;                               // samples per batch on one rank
  int rank = 0;
  int world = 1;
  bool shuffle = true;
  bool keep_last = false;  // the epoch's last, smaller global batch: kept or dropped
  /// In such a batch, each rank has the same positions as in a full one, as far as they exist; its part may
  /// be empty. Otherwise the samples are divided evenly among the ranks.
  bool fixed_parts = false;
  /// In such a batch, all ranks have the same number of samples: some repeat another rank's. Not with fixed_parts.
  bool pad_last = false;
  int64_t views = 1;  // of each sample
  uint64_t seed = 0;
};

/// One batch of this rank: the positions [first, first + count) of an epoch.
struct BatchRange {
  int64_t epoch = 0;
  int64_t index = 0;  // within the epoch
  int64_t first = 0;
  int64_t count = 0;     // less than the batch size, even 0, only in an epoch's last batch
  int64_t repeated = 0;  // pad_last: number at the beginning that are another rank's, without weight here
  bool last_in_epoch = false;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}

  const SamplerOptions& options() const { return options_; }
  int64_t batches_per_epoch() const;
  /// Positions of this rank in an epoch, without repeated ones: samples times views.
  int64_t samples_per_epoch() const;
  /// The batch with the number `sequence` counted over all epochs (epoch * batches_per_epoch + index). An incomplete last
  /// global batch is divided, with every sample on exactly one rank.
  BatchRange range(int64_t sequence) const;
  /// Positions of all ranks before `index` of `epoch`, counted from the start of epoch 0.
  int64_t consumed(int64_t epoch, int64_t index) const;
  /// The largest epoch whose batches and samples can be counted.
  int64_t last_epoch() const;
  /// The order of an epoch: position to sample. Costs some dozen Philox blocks; make one per portion, not one
  /// per sample.
  class Order {
   public:
    int64_t sample(int64_t position) const {
      const int64_t place = position / views_;
      const int64_t drawn = shuffle_ ? permutation_(place) : place;
      return subset_.sample(quotas_ == nullptr ? drawn : quotas_->sample(drawn, epoch_, seed_));
    }

   private:
    friend class Sampler;
    Order(const SamplerOptions& options, int64_t epoch)
        : subset_(options.subset),
          quotas_(options.quotas),
          epoch_(epoch),
          seed_(options.seed),
          shuffle_(options.shuffle),
          views_(options.views),
          permutation_(options.subset.count(), options.seed, static_cast<uint64_t>(epoch)) {}
    Subset subset_;
    std::shared_ptr<const Quotas> quotas_;
    int64_t epoch_;
    uint64_t seed_;
    bool shuffle_;
    int64_t views_;
    Permutation permutation_;
  };
  Order order(int64_t epoch) const { return Order(options_, epoch); }
  /// The substitute for a bad sample at `position`: uniform over the subset, keyed by the attempt (1, 2, ...), the same for all
  /// its views.
  int64_t substitute(int64_t epoch, int64_t position, int32_t attempt) const;
  /// The samples whose images are joined with that of `position`: others[k - 1] is image k's, uniform over the subset.
  void companions(int64_t epoch, int64_t position, int32_t attempt, std::span<int64_t> others) const;

 private:
  int64_t global_batch() const { return options_.batch * options_.world; }
  int64_t samples_used_per_epoch() const;  // by all ranks

  SamplerOptions options_;
};

}  // namespace dlpipe::pipeline
