#include "pipeline/plan/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace dlpipe::pipeline {
namespace {

// Views of a sample stay together: in the order, on a rank, and where another sample stands in.
TEST(Sampler, ViewsOfASampleStandBehindEachOther) {
  SamplerOptions options;
  options.subset = Subset::all(23);
  options.batch = 4;
  options.world = 2;
  options.keep_last = true;
  options.seed = 5;
  SamplerOptions of_three = options;
  of_three.views = 3;
  for (const int rank : {0, 1}) {
    options.rank = of_three.rank = rank;
    const Sampler one(options);
    const Sampler three(of_three);
    ASSERT_EQ(three.batches_per_epoch(), one.batches_per_epoch());
    EXPECT_EQ(three.samples_per_epoch(), 3 * one.samples_per_epoch());
    for (int64_t sequence = 0; sequence < 2 * one.batches_per_epoch(); ++sequence) {
      const BatchRange range = three.range(sequence);
      EXPECT_EQ(range.first, 3 * one.range(sequence).first);
      EXPECT_EQ(range.count, 3 * one.range(sequence).count);
      EXPECT_EQ(three.consumed(range.epoch, range.index), 3 * one.consumed(range.epoch, range.index));
      for (int64_t i = 0; i < range.count; ++i) {
        const int64_t position = range.first + i;
        EXPECT_EQ(three.order(range.epoch).sample(position), one.order(range.epoch).sample(position / 3));
        EXPECT_EQ(three.substitute(range.epoch, position, 1), one.substitute(range.epoch, position / 3, 1));
      }
    }
  }
}

TEST(Permutation, IsAPermutationOfEverySize) {
  for (const int64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 1000, 1024, 1025, 50000}) {
    const Permutation permutation(size, 17, 3);
    std::vector<bool> seen(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t image = permutation(i);
      ASSERT_GE(image, 0);
      ASSERT_LT(image, size);
      ASSERT_FALSE(seen[static_cast<size_t>(image)]) << "size " << size << " repeats " << image;
      seen[static_cast<size_t>(image)] = true;
    }
  }
}

TEST(Permutation, WorksBeyond32Bits) {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const Permutation permutation(size, 1, 0);
  std::set<int64_t> images;
  for (int64_t i = 0; i < 10000; ++i) {
    const int64_t image = permutation(size - 1 - i);
    ASSERT_LT(image, size);
    ASSERT_GE(image, 0);
    images.insert(image);
  }
  EXPECT_EQ(images.size(), 10000u);
  EXPECT_GT(*images.rbegin(), size / 2);
}

// Every one of the 5! orders comes equally often over many seeds: chi-squared with 119 degrees of freedom has
// mean 119 and standard deviation 15.4; 5 deviations leave room for no seed but a broken one.
TEST(Permutation, AllOrdersOfASmallSetAreEquallyLikely) {
  std::map<std::vector<int64_t>, int> count;
  const int trials = 24000;
  for (int seed = 0; seed < trials; ++seed) {
    const Permutation permutation(5, static_cast<uint64_t>(seed), 0);
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 5; ++i) order.push_back(permutation(i));
    ++count[order];
  }
  EXPECT_EQ(count.size(), 120u);
  double chi2 = 0;
  for (const auto& [order, n] : count) chi2 += std::pow(n - trials / 120.0, 2) / (trials / 120.0);
  EXPECT_LT(chi2, 119 + 5 * 15.4);
}

// Where the first positions of many epochs land: 100 cells, 99 degrees of freedom.
TEST(Permutation, ImagesAreUniformOverEpochsAndPositions) {
  const int64_t size = 50000;
  std::vector<int> cells(100);
  int total = 0;
  for (uint64_t epoch = 0; epoch < 500; ++epoch) {
    const Permutation permutation(size, 99, epoch);
    for (int64_t position = 0; position < 40; ++position, ++total) ++cells[permutation(position) / 500];
  }
  double chi2 = 0;
  for (const int n : cells) chi2 += std::pow(n - total / 100.0, 2) / (total / 100.0);
  EXPECT_LT(chi2, 99 + 5 * std::sqrt(2 * 99.0));
}

// Neighbours in the file don't stay neighbours: in a random order of n about 2 pairs of n are adjacent.
TEST(Permutation, NeighboursAreTornApart) {
  const int64_t size = 50000;
  const Permutation permutation(size, 5, 0);
  int adjacent = 0;
  double sum = 0;
  for (int64_t i = 0; i + 1 < size; ++i) {
    const double distance = std::abs(static_cast<double>(permutation(i) - permutation(i + 1)));
    adjacent += distance == 1;
    sum += distance;
  }
  EXPECT_LT(adjacent, 15);
  EXPECT_NEAR(sum / size, size / 3.0, size / 100.0);  // mean distance of two uniform points
}

TEST(Permutation, SeedsAndEpochsDiffer) {
  const Permutation a(1000, 1, 0);
  const Permutation b(1000, 1, 1);
  const Permutation c(1000, 2, 0);
  int same_ab = 0;
  int same_ac = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    same_ab += a(i) == b(i);
    same_ac += a(i) == c(i);
  }
  EXPECT_LT(same_ab, 10);
  EXPECT_LT(same_ac, 10);
}

std::vector<int64_t> epoch_of(const Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> samples;
  const Sampler::Order order = sampler.order(epoch);
  for (int64_t index = 0; index < sampler.batches_per_epoch(); ++index) {
    const BatchRange range = sampler.range(epoch * sampler.batches_per_epoch() + index);
    EXPECT_EQ(range.epoch, epoch);
    EXPECT_EQ(range.index, index);
    EXPECT_EQ(range.last_in_epoch, index + 1 == sampler.batches_per_epoch());
    for (int64_t i = 0; i < range.count; ++i) samples.push_back(order.sample(range.first + i));
  }
  return samples;
}

TEST(Sampler, FileOrderKeepingTheLastGivesEverySampleInOrder) {
  const Sampler sampler({.subset = Subset::all(10), .batch = 4, .shuffle = false, .keep_last = true});
  EXPECT_EQ(sampler.batches_per_epoch(), 3);
  EXPECT_EQ(sampler.samples_per_epoch(), 10);
  EXPECT_EQ(epoch_of(sampler, 0), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(sampler.range(2).count, 2);
  EXPECT_EQ(sampler.range(3).epoch, 1);
}

TEST(Sampler, DroppingTheLastLeavesOutADifferentTailEachEpoch) {
  const Sampler sampler({.subset = Subset::all(10), .batch = 4, .shuffle = true});
  EXPECT_EQ(sampler.batches_per_epoch(), 2);
  EXPECT_EQ(sampler.samples_per_epoch(), 8);
  std::set<int64_t> seen;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto samples = epoch_of(sampler, epoch);
    EXPECT_EQ(std::set<int64_t>(samples.begin(), samples.end()).size(), 8u);
    seen.insert(samples.begin(), samples.end());
  }
  EXPECT_EQ(seen.size(), 10u);
}

TEST(Sampler, RanksPartitionEveryEpochAndHaveEquallyManyBatches) {
  for (const bool keep : {false, true}) {
    for (const int world : {1, 2, 3, 5}) {
      for (const int64_t samples : {60, 61, 64, 77}) {
        std::vector<int64_t> all;
        int64_t batches = -1;
        for (int rank = 0; rank < world; ++rank) {
          const Sampler sampler({.subset = Subset::all(samples),
                                 .batch = 4,
                                 .rank = rank,
                                 .world = world,
                                 .shuffle = true,
                                 .keep_last = keep,
                                 .seed = 3});
          if (batches < 0) batches = sampler.batches_per_epoch();
          EXPECT_EQ(sampler.batches_per_epoch(), batches);
          const auto mine = epoch_of(sampler, 2);
          EXPECT_EQ(static_cast<int64_t>(mine.size()), sampler.samples_per_epoch());
          all.insert(all.end(), mine.begin(), mine.end());
        }
        const std::set<int64_t> distinct(all.begin(), all.end());
        EXPECT_EQ(distinct.size(), all.size());
        EXPECT_EQ(static_cast<int64_t>(all.size()), keep ? samples : samples / (4 * world) * (4 * world));
      }
    }
  }
}

TEST(Sampler, APaddedLastBatchIsAsLargeOnEveryRankAndWeighsEverySampleOnce) {
  for (const int world : {1, 2, 3, 7}) {
    for (const int64_t samples : {29, 57, 61, 65, 84}) {
      std::multiset<int64_t> weighed;
      std::set<int64_t> sizes;
      int64_t counted = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Sampler sampler({.subset = Subset::all(samples),
                               .batch = 4,
                               .rank = rank,
                               .world = world,
                               .shuffle = false,
                               .keep_last = true,
                               .pad_last = true});
        const int64_t batches = sampler.batches_per_epoch();
        counted += sampler.samples_per_epoch();
        for (int64_t index = 0; index < batches; ++index) {
          const BatchRange range = sampler.range(batches + index);
          const auto order = sampler.order(1);
          EXPECT_GE(range.repeated, 0);
          EXPECT_LE(range.repeated, range.count);
          EXPECT_TRUE(range.repeated == 0 || index + 1 == batches);
          for (int64_t i = range.repeated; i < range.count; ++i)
            weighed.insert(order.sample(range.first + i));
          if (index + 1 == batches) sizes.insert(range.count);
        }
      }
      EXPECT_EQ(sizes.size(), 1u) << samples << " samples, " << world << " ranks";
      EXPECT_GT(*sizes.begin(), 0);
      EXPECT_EQ(counted, samples);
      EXPECT_EQ(weighed.size(), static_cast<size_t>(samples));
      EXPECT_EQ(std::set<int64_t>(weighed.begin(), weighed.end()).size(), weighed.size());
    }
  }
}

TEST(Sampler, AWorldOfRanksSeesTheSameGlobalBatchesAsOneRank) {
  const Sampler whole({.subset = Subset::all(100), .batch = 12, .shuffle = true, .seed = 8});
  for (int64_t sequence = 0; sequence < 2 * whole.batches_per_epoch(); ++sequence) {
    int64_t next = whole.range(sequence).first;
    for (int rank = 0; rank < 3; ++rank) {
      const Sampler part(
          {.subset = Subset::all(100), .batch = 4, .rank = rank, .world = 3, .shuffle = true, .seed = 8});
      EXPECT_EQ(part.range(sequence).first, next);
      next += part.range(sequence).count;
    }
    EXPECT_EQ(next, whole.range(sequence).first + whole.range(sequence).count);
  }
}

TEST(Sampler, ConsumedCountsAllRanksOverEpochs) {
  const Sampler drop({.subset = Subset::all(10), .batch = 2, .world = 2});
  EXPECT_EQ(drop.consumed(0, 0), 0);
  EXPECT_EQ(drop.consumed(0, 2), 8);
  EXPECT_EQ(drop.consumed(1, 1), 12);
  const Sampler keep({.subset = Subset::all(10), .batch = 2, .world = 2, .keep_last = true});
  EXPECT_EQ(keep.consumed(0, 3), 10);
  EXPECT_EQ(keep.consumed(2, 1), 24);
}

TEST(Sampler, TheLastEpochIsTheOneWhoseSamplesCanBeCounted) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Sampler sampler({.subset = Subset::all(40), .batch = 8, .views = 2});
  EXPECT_LE(sampler.last_epoch(), kMost / 80 - 1);
  EXPECT_GT(sampler.last_epoch(), kMost / 82 - 2);
  EXPECT_GT(sampler.consumed(sampler.last_epoch(), 5), kMost / 82 * 80 - 80);
}

// A dataset sorted by class keeps every class's share, but for the two stretches that lie across its ends.
TEST(Subset, TakesOneSampleOfEveryStretchOfTheDataset) {
  constexpr int64_t kSize = 50'000, kClassSize = kSize / 10;
  for (const int64_t count : {10, 999, 25'000, 49'999}) {
    const Subset subset(kSize, count, 7);
    std::vector<int64_t> of_class(10);
    int64_t last = -1;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t sample = subset.sample(i);
      ASSERT_GT(sample, last) << "in the dataset's order, none twice";
      ASSERT_LT(sample, kSize);
      last = sample;
      ++of_class[static_cast<size_t>(sample / kClassSize)];
    }
    for (const int64_t n : of_class) EXPECT_NEAR(static_cast<double>(n), static_cast<double>(count) / 10, 2);
  }
}

TEST(Subset, AListChoosesWhatIsUsed) {
  const auto chosen = std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{7, 3, 3, 900});
  const Subset subset(4, 4, 1, chosen);
  EXPECT_FALSE(subset.is_all());
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(subset.sample(i), (*chosen)[static_cast<size_t>(i)]);
  const auto others = std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{7, 3, 4, 900});
  EXPECT_NE(subset.to_string(), Subset(4, 4, 1, others).to_string()) << "the pipeline's id has it";
  EXPECT_EQ(subset.to_string(),
            Subset(4, 4, 2, std::make_shared<const std::vector<int64_t>>(*chosen)).to_string());
  const Subset half(4, 2, 1, chosen);
  EXPECT_TRUE(half.sample(0) == 7 || half.sample(0) == 3);
  EXPECT_TRUE(half.sample(1) == 3 || half.sample(1) == 900);
  const Sampler sampler({.subset = subset, .batch = 4, .seed = 2});
  std::multiset<int64_t> seen;
  for (int64_t i = 0; i < 4; ++i) seen.insert(sampler.order(1).sample(i));
  EXPECT_EQ(seen, (std::multiset<int64_t>{3, 3, 7, 900}));
}

TEST(Subset, TheSeedDecides) {
  int64_t same = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(Subset(100'000, 1000, 3).sample(i), Subset(100'000, 1000, 3).sample(i));
    same += Subset(100'000, 1000, 3).sample(i) == Subset(100'000, 1000, 4).sample(i) ? 1 : 0;
  }
  EXPECT_LT(same, 40) << "of 1,000 draws from 100 each, about 10 are equal by chance";
  EXPECT_EQ(Subset(100'000, 1000, 3).to_string(), "1,000 of 100,000 samples, by seed 3");
  EXPECT_EQ(Subset::all(10).to_string(), "");
  EXPECT_EQ(Subset::all(10).sample(9), 9);
}

TEST(Subset, BoundariesHoldBeyond64BitProducts) {
  constexpr int64_t kSize = int64_t{1} << 44, kCount = (int64_t{1} << 40) + 1;
  const Subset subset(kSize, kCount, 1);
  EXPECT_LT(subset.sample(0), 16);
  EXPECT_LT(subset.sample(kCount - 1), kSize);
  EXPECT_GE(subset.sample(kCount - 1), kSize - 17);
}

TEST(Sampler, EpochsAndSubstitutesStayInTheSubset) {
  const Subset subset(1000, 30, 5);
  std::set<int64_t> allowed;
  for (int64_t i = 0; i < 30; ++i) allowed.insert(subset.sample(i));
  const Sampler sampler({.subset = subset, .batch = 5, .shuffle = true, .seed = 5});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto samples = epoch_of(sampler, epoch);
    EXPECT_EQ(std::set<int64_t>(samples.begin(), samples.end()), allowed);
  }
  for (int64_t position = 0; position < 30; ++position)
    EXPECT_TRUE(allowed.contains(sampler.substitute(0, position, 1)));
}

TEST(Sampler, SubstitutesAreInRangeAndDifferByAttempt) {
  const Sampler sampler({.subset = Subset::all(1000), .batch = 2, .seed = 4});
  std::set<int64_t> seen;
  for (int32_t attempt = 1; attempt <= 8; ++attempt) {
    for (int64_t position = 0; position < 50; ++position) {
      const int64_t sample = sampler.substitute(0, position, attempt);
      ASSERT_GE(sample, 0);
      ASSERT_LT(sample, 1000);
      EXPECT_EQ(sample, sampler.substitute(0, position, attempt));
      seen.insert(sample);
    }
  }
  EXPECT_GT(seen.size(), 300u);  // 400 draws of 1000: about 330 distinct
}

/// 1,000 samples: 700 of class 0, 250 of class 1, 50 of class 2, none of class 3.
std::vector<int32_t> uneven_classes() {
  std::vector<int32_t> classes;
  for (int32_t i = 0; i < 1000; ++i) classes.push_back(i % 20 == 19 ? 2 : i % 4 == 0 ? 1 : 0);
  return classes;
}

Sampler sampler_with(const std::vector<double>& weights, int rank = 0, int world = 1) {
  return Sampler({.subset = Subset::all(1000),
                  .quotas = std::make_shared<const Quotas>(uneven_classes(), weights),
                  .batch = 20 / world,
                  .rank = rank,
                  .world = world,
                  .seed = 11});
}

TEST(Quotas, EachClassHasItsShareOfEveryEpoch) {
  const std::vector<int32_t> classes = uneven_classes();
  const Sampler sampler = sampler_with({1, 2, 1, 5});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::map<int32_t, int64_t> counts;
    const Sampler::Order order = sampler.order(epoch);
    for (int64_t position = 0; position < 1000; ++position)
      ++counts[classes[static_cast<size_t>(order.sample(position))]];
    EXPECT_EQ(counts, (std::map<int32_t, int64_t>{{0, 250}, {1, 500}, {2, 250}}))
        << "of class 3 there is no sample";
  }
}

TEST(Quotas, ASampleComesAgainWhenAllOthersOfItsClassHaveCome) {
  const std::vector<int32_t> classes = uneven_classes();
  const Sampler sampler = sampler_with({1, 1, 1, 0});
  std::map<int64_t, int64_t> times;
  constexpr int64_t kEpochs = 9;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Sampler::Order order = sampler.order(epoch);
    for (int64_t position = 0; position < 1000; ++position) ++times[order.sample(position)];
  }
  std::map<int32_t, std::pair<int64_t, int64_t>> range;
  for (int64_t sample = 0; sample < 1000; ++sample) {
    auto& [least, most] =
        range.try_emplace(classes[static_cast<size_t>(sample)], kEpochs * 1000, 0).first->second;
    least = std::min(least, times[sample]);
    most = std::max(most, times[sample]);
  }
  for (const auto& [label, counts] : range) EXPECT_LE(counts.second - counts.first, 1) << "class " << label;
}

// Shares below one place, and between two whole numbers: each class has them over epochs, and in each epoch one of the two.
TEST(Quotas, SharesThatAreNoWholeNumbersAreMetOverEpochs) {
  constexpr int64_t kSamples = 150, kClasses = 100, kEpochs = 400;
  std::vector<int32_t> classes;
  for (int32_t i = 0; i < kSamples; ++i) classes.push_back(i % kClasses);
  std::vector<double> weights(kClasses, 1);
  weights[7] = 0.1;
  weights[kClasses - 1] = 0;
  const double total = 98.1;
  const Quotas quotas(classes, weights);
  std::vector<int64_t> counts(kClasses), times(kSamples);
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<int64_t> own(kClasses);
    for (int64_t place = 0; place < kSamples; ++place) {
      const int64_t sample = quotas.sample(place, epoch, 3);
      ++own[static_cast<size_t>(classes[static_cast<size_t>(sample)])];
      ++times[static_cast<size_t>(sample)];
    }
    for (size_t c = 0; c < own.size(); ++c) {
      const double share = kSamples * weights[c] / total;
      ASSERT_LE(std::floor(share), own[c]) << "class " << c << " in epoch " << epoch;
      ASSERT_GE(std::ceil(share), own[c]) << "class " << c << " in epoch " << epoch;
      counts[c] += own[c];
      // also of few epochs
      ASSERT_NEAR(static_cast<double>(counts[c]), share * static_cast<double>(epoch + 1), 4) << "class " << c;
    }
  }
  // A class's samples come equally often, so draws are numbered without a gap over epochs.
  for (int32_t i = 0; i + kClasses < kSamples; ++i)
    EXPECT_LE(std::abs(times[static_cast<size_t>(i)] - times[static_cast<size_t>(i + kClasses)]), 1) << i;
}

TEST(Quotas, RanksShareOutTheEpochOfOne) {
  const Sampler whole = sampler_with({1, 1, 1, 1});
  for (int64_t sequence = 0; sequence < 2 * whole.batches_per_epoch(); ++sequence) {
    const BatchRange all = whole.range(sequence);
    std::vector<int64_t> expected, got;
    for (int64_t i = 0; i < all.count; ++i) expected.push_back(whole.order(all.epoch).sample(all.first + i));
    for (int rank = 0; rank < 4; ++rank) {
      const Sampler own = sampler_with({1, 1, 1, 1}, rank, 4);
      const BatchRange range = own.range(sequence);
      for (int64_t i = 0; i < range.count; ++i) got.push_back(own.order(range.epoch).sample(range.first + i));
    }
    EXPECT_EQ(got, expected);
  }
}

// Pearson's test: within a class every sample is as likely at every place of an epoch.
TEST(Quotas, DrawsAreUniformWithinAClassAndOverPlaces) {
  constexpr int64_t kSamples = 60, kParts = 10, kEpochs = 3000;
  std::vector<int32_t> classes;
  for (int64_t i = 0; i < kSamples; ++i) classes.push_back(i < 12 ? 1 : 0);
  const Sampler sampler({.subset = Subset::all(kSamples),
                         .quotas = std::make_shared<const Quotas>(classes, std::vector<double>{1, 1}),
                         .batch = 10,
                         .seed = 3});
  std::vector<std::vector<double>> counts(static_cast<size_t>(kSamples), std::vector<double>(kParts));
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Sampler::Order order = sampler.order(epoch);
    for (int64_t position = 0; position < kSamples; ++position)
      ++counts[static_cast<size_t>(order.sample(position))]
              [static_cast<size_t>(position * kParts / kSamples)];
  }
  double chi_squared = 0;
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const double draws = (sample < 12 ? 30.0 / 12 : 30.0 / 48) * kEpochs;
    for (const double count : counts[static_cast<size_t>(sample)])
      chi_squared += (count - draws / kParts) * (count - draws / kParts) / (draws / kParts);
  }
  // At most 60 x 10 degrees of freedom; 5 deviations above the mean.
  const double degrees = kSamples * kParts;
  EXPECT_LT(chi_squared, degrees + 5 * std::sqrt(2 * degrees));
}

}  // namespace
}  // namespace dlpipe::pipeline
