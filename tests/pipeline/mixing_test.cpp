// Who is mixed with whom and by how much: the distributions of the papers, every draw a function of its place
// in the run.
#include "pipeline/plan/batch_pixels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tests/base/device/simulated_device.h"
#include "tests/base/device/violations.h"
#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

constexpr augment::ImageSize kSize = {48, 32, 3};

std::vector<SampleMix> draw(const MixingOptions& options, int64_t batch, const std::vector<float>& weight,
                            uint64_t seed = 5) {
  const auto capacity = static_cast<int64_t>(weight.size());
  std::vector<SampleMix> mixes(weight.size());
  draw_mixes(options, seed, {3, batch, batch * capacity, capacity, false}, kSize, weight, mixes);
  return mixes;
}

// Moments around 1/2 of Beta(a, a): variance 1 / (4 (2a + 1)), fourth 3 / (16 (2a + 1) (2a + 3)). With
// 100,000 draws their standard errors are below 6e-4 and 3e-4 (a = 0.01, the widest).
TEST(SymmetricBeta, HasItsMoments) {
  for (const double alpha : {0.01, 0.2, 0.5, 1.0, 1.5, 4.0, 50.0}) {
    RandomStream random(7, 0);
    constexpr int kDraws = 100'000;
    double mean = 0, second = 0, fourth = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = symmetric_beta(alpha, random);
      ASSERT_TRUE(x >= 0 && x <= 1) << x;
      const double d = x - 0.5;
      mean += x / kDraws;
      second += d * d / kDraws;
      fourth += d * d * d * d / kDraws;
    }
    EXPECT_NEAR(mean, 0.5, 6e-3) << alpha;
    EXPECT_NEAR(second, 1 / (4 * (2 * alpha + 1)), 2e-3) << alpha;
    EXPECT_NEAR(fourth, 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3)), 1e-3) << alpha;
  }
}

TEST(SymmetricBeta, OfOneIsUniform) {
  RandomStream random(8, 0);
  std::vector<int> bins(10);
  for (int i = 0; i < 50'000; ++i) ++bins[static_cast<size_t>(symmetric_beta(1, random) * 10)];
  for (const int bin : bins) EXPECT_NEAR(bin, 5000, 350);  // five standard deviations
}

TEST(SymmetricBeta, SurvivesAnyAlpha) {
  RandomStream random(9, 0);
  for (const double alpha : {1e-300, 1e-12, 1e-3, 1e6, 1e300}) {
    for (int i = 0; i < 100; ++i) {
      const double x = symmetric_beta(alpha, random);
      EXPECT_TRUE(x >= 0 && x <= 1) << alpha << " " << x;
    }
  }
}

TEST(Mixing, EachSampleThatCountsIsThePartnerOfOneOther) {
  std::vector<float> weight(17, 1.0f);
  weight[3] = weight[16] = 0;
  std::set<int32_t> turns;
  for (int64_t batch = 0; batch < 40; ++batch) {
    const auto mixes = draw({0.4, 0}, batch, weight);
    std::set<int32_t> partners;
    for (size_t i = 0; i < mixes.size(); ++i) {
      if (weight[i] == 0) {
        EXPECT_EQ(mixes[i].partner, -1);
        EXPECT_EQ(mixes[i].lambda, 1.0f);
        continue;
      }
      EXPECT_NE(mixes[i].partner, static_cast<int32_t>(i));
      EXPECT_NE(weight[static_cast<size_t>(mixes[i].partner)], 0.0f);
      partners.insert(mixes[i].partner);
    }
    EXPECT_EQ(partners.size(), 15u);
    turns.insert(mixes[0].partner);
  }
  EXPECT_GT(turns.size(), 8u);
}

TEST(Mixing, ASampleAloneIsNotMixed) {
  for (const SampleMix& mix : draw({1, 1}, 0, {0, 1, 0})) EXPECT_EQ(mix.partner, -1);
  for (const SampleMix& mix : draw({1, 1}, 0, {0, 0})) EXPECT_EQ(mix.partner, -1);
}

TEST(Mixing, MixupsLambdaIsBetas) {
  const std::vector<float> weight(64, 1.0f);
  double mean = 0, second = 0;
  for (int64_t batch = 0; batch < 1000; ++batch) {
    for (const SampleMix& mix : draw({0.2, 0}, batch, weight)) {
      EXPECT_EQ(mix.box, Region());
      mean += mix.lambda / 64'000;
      second += (mix.lambda - 0.5) * (mix.lambda - 0.5) / 64'000;
    }
  }
  EXPECT_NEAR(mean, 0.5, 0.01);  // standard error 0.0017
  EXPECT_NEAR(second, 1 / (4 * 1.4), 2e-3);
}

// What a side of `whole` pixels keeps of a cut of `half` pixels both ways, over all centers.
double expected_side(int whole, double ratio) {
  const int half = static_cast<int>(whole * ratio) / 2;
  double sum = 0;
  for (int center = 0; center < whole; ++center)
    sum += std::min(whole, center + half) - std::max(0, center - half);
  return sum / whole;
}

TEST(Mixing, CutMixsBoxesHaveTheirAreaAndLambdaIsTheRest) {
  const std::vector<float> weight(64, 1.0f);
  double area_sum = 0, left_sum = 0;
  for (int64_t batch = 0; batch < 1000; ++batch) {
    for (const SampleMix& mix : draw({0, 1}, batch, weight)) {
      const double area = static_cast<double>(mix.box.width) * mix.box.height / (48 * 32);
      EXPECT_EQ(mix.partner < 0, area == 0);
      EXPECT_FLOAT_EQ(mix.lambda, static_cast<float>(1 - area));
      EXPECT_TRUE(mix.box.x >= 0 && mix.box.x + mix.box.width <= 48);
      EXPECT_TRUE(mix.box.y >= 0 && mix.box.y + mix.box.height <= 32);
      area_sum += area / 64'000;
      left_sum += (mix.box.x + mix.box.width / 2.0) / 64'000;
    }
  }
  double expected = 0;  // over lambda, uniform where alpha is 1
  for (int i = 0; i < 20'000; ++i) {
    const double ratio = std::sqrt((i + 0.5) / 20'000);
    expected += expected_side(48, ratio) * expected_side(32, ratio) / (48 * 32) / 20'000;
  }
  EXPECT_NEAR(area_sum, expected, 4e-3);  // standard error 0.001
  EXPECT_GT(expected, 0.25);
  EXPECT_NEAR(left_sum, 24, 1.0);  // empty boxes lie at the center drawn or at 0
}

TEST(Mixing, WithBothHalfOfTheBatchesTakeEach) {
  const std::vector<float> weight(8, 1.0f);
  int boxes = 0;
  for (int64_t batch = 0; batch < 1000; ++batch) {
    const auto mixes = draw({1, 1}, batch, weight);
    const auto with_box =
        std::count_if(mixes.begin(), mixes.end(), [](const SampleMix& mix) { return mix.box.width > 0; });
    const auto without = std::count_if(mixes.begin(), mixes.end(), [](const SampleMix& mix) {
      return mix.partner >= 0 && mix.box.width == 0;
    });
    EXPECT_TRUE(with_box == 0 || without == 0);
    boxes += with_box > 0;
  }
  EXPECT_NEAR(boxes, 500, 80);  // five standard deviations
}

// The same on every machine: these bits were drawn on x86-64.
TEST(Mixing, DrawsAreTheseBits) {
  uint64_t hash = 0;
  for (int64_t batch = 0; batch < 50; ++batch) {
    const auto mixes = draw({batch % 2 == 0 ? 0.3 : 1.7, 0.8}, batch, std::vector<float>(16, 1.0f));
    hash = data::checksum64(std::as_bytes(std::span(mixes)), hash);
  }
  EXPECT_EQ(hash, 10936437718091728808u);
}

class MixedBatches : public DatasetTest<MixedBatches> {
 public:
  static void write_datasets() {
    write_drawn_dataset(*dir_ / "d", {.count = 61});
    write_drawn_dataset(*dir_ / "bad", {.count = 21, .truncated = {3, 17}});
  }

 protected:
  static LoaderOptions options() {
    LoaderOptions options;
    options.data = *dir_ / "d";
    options.augment = "resize(24x24) hflip";
    options.batch = 8;
    options.threads = 2;
    options.epochs = 3;
    options.seed = 11;
    options.mixup = 0.2;
    options.cutmix = 1;
    return options;
  }
  static std::vector<uint64_t> hashes(const LoaderOptions& options) {
    return read_hashes(*open_loader(options));
  }
};

TEST_F(MixedBatches, AreTheSameForAnyThreadCountAndSlots) {
  const auto expected = hashes(options());
  for (const int threads : {1, 3}) {
    for (const int slots : {1, 5}) {
      LoaderOptions other = options();
      other.threads = threads;
      other.slots = slots;
      EXPECT_EQ(hashes(other), expected) << threads << " threads, " << slots << " slots";
    }
  }
}

TEST_F(MixedBatches, ResumeAtEveryPosition) {
  const auto expected = hashes(options());
  LoaderOptions most = options();
  most.threads = 3;  // TBB warns when a loader asks for more threads than another that is open
  const auto first = open_loader(most);
  for (size_t position = 0; position < expected.size(); ++position) {
    LoaderOptions resumed = options();
    resumed.threads = 1 + static_cast<int>(position % 3);
    const auto loader = open_loader(resumed);
    throw_if_error(loader->seek(first->state()));
    const std::vector<uint64_t> rest(expected.begin() + static_cast<ptrdiff_t>(position), expected.end());
    EXPECT_EQ(read_hashes(*loader), rest) << position;
    read_hashes(*first, 1);
  }
}

TEST_F(MixedBatches, ChangeTheChainAndThePipelineButNotThePixels) {
  const auto chain_of = [](const LoaderOptions& options) {
    const auto loader = open_loader(options);
    read_hashes(*loader);
    return loader->state().chain;
  };
  LoaderOptions other = options();
  other.mixup = 0.21;
  EXPECT_NE(chain_of(other), chain_of(options()));
  EXPECT_NE(open_loader(other)->pipeline_id(), open_loader(options())->pipeline_id());
  EXPECT_EQ(open_loader(options())->seek(open_loader(other)->state()).code(), ErrorCode::kMisuse);
  other.mixup = other.cutmix = 0;
  const auto mixed = open_loader(options()), plain = open_loader(other);
  read_side_by_side(*mixed, *plain, [](const Batch& a, const Batch& b) {
    EXPECT_EQ(a.prep->mix.size(), 8u);
    EXPECT_TRUE(b.prep->mix.empty());
    const size_t bytes = a.fields[0].spec->sample_bytes() * 8;
    EXPECT_EQ(std::memcmp(a.fields[0].data, b.fields[0].data, bytes), 0);
  });
}

// Partners are of one rank's batch or of one grain, so only grains make the batches independent of the number of ranks.
TEST_F(MixedBatches, AnotherNumberOfRanksHasOtherPartnersUnlessGrainsStayTheSame) {
  LoaderOptions two = options();
  two.batch = 4;
  two.world = 2;
  const auto resume = [](const LoaderOptions& whole, const LoaderOptions& part) {
    return open_loader(whole)->seek(open_loader(part)->state());
  };
  const Status refused = resume(options(), two);
  EXPECT_EQ(refused.code(), ErrorCode::kMisuse);
  EXPECT_NE(refused.message().find("--world"), std::string::npos) << refused.message();
  LoaderOptions grains = options();
  grains.grains = two.grains = 2;
  EXPECT_TRUE(resume(grains, two).ok());
  const Status other_grains = resume(options(), two);
  EXPECT_NE(other_grains.message().find("keep --grains"), std::string::npos) << other_grains.message();
  LoaderOptions plain = options();
  plain.mixup = plain.cutmix = two.mixup = two.cutmix = 0;
  two.grains = 1;
  EXPECT_TRUE(resume(plain, two).ok());
}

TEST_F(MixedBatches, PaddingAndDroppedSamplesStayOut) {
  LoaderOptions o = options();
  o.data = *dir_ / "bad";
  o.last = LastBatch::kKeep;
  o.on_bad = OnBadRecord::kDrop;
  o.epochs = 1;
  const auto loader = open_loader(o);
  int64_t left_out = 0, mixed = 0;
  while (const auto batch = value_or_throw(loader->next())) {
    for (size_t i = 0; i < 8; ++i) {
      const SampleMix& mix = batch->prep->mix[i];
      left_out += batch->weight[i] == 0;
      mixed += mix.partner >= 0;
      EXPECT_TRUE(batch->weight[i] != 0 || mix.partner < 0);
      if (mix.partner >= 0) {
        EXPECT_EQ(batch->weight[static_cast<size_t>(mix.partner)], 1.0f);
      }
    }
    throw_if_error(loader->release(*batch));
  }
  EXPECT_EQ(left_out, 3 + 2);  // places of the last batch, corrupt records
  EXPECT_GT(mixed, 10);
}

TEST_F(MixedBatches, OnADeviceTheyLieBesideTheFields) {
  SimulatedDevice device;
  LoaderOptions o = options();
  o.device = &device;
  auto there = open_loader(o);
  const auto here = open_loader(options());
  read_side_by_side(*there, *here, [&](const Batch& batch, const Batch& expected) {
    EXPECT_EQ(batch.chain, expected.chain);
    ASSERT_EQ(batch.prep->mix.size(), 8u);
    throw_if_error(device.synchronize(*batch.ready_event));
    const auto open = device.open_to_host();
    EXPECT_EQ(std::memcmp(batch.device_mixes, expected.prep->mix.data(), 8 * sizeof(SampleMix)), 0);
    EXPECT_EQ(std::memcmp(batch.prep->mix.data(), expected.prep->mix.data(), 8 * sizeof(SampleMix)), 0);
  });
  there.reset();
  expect_no_violations(device);
}

TEST_F(MixedBatches, BadOptionsAreNamed) {
  const auto message = [](const LoaderOptions& options) {
    const auto loader = Loader::open(options);
    return loader.ok() ? std::string() : loader.status().message();
  };
  LoaderOptions o = options();
  o.mixup = -0.5;
  EXPECT_NE(message(o).find("--mixup -0.5; use the alpha of"), std::string::npos) << message(o);
  o = options();
  o.cutmix = NAN;
  EXPECT_NE(message(o).find("--cutmix nan"), std::string::npos) << message(o);
  o = options();
  o.batch = 1;
  EXPECT_NE(message(o).find("use --batch 2 or more"), std::string::npos) << message(o);
  for (const int world : {1, 2}) {  // a grain of one sample has nobody to be mixed with
    o = options();
    o.world = world;
    o.grains = 8 * world;
    EXPECT_NE(message(o).find("mixes samples of a grain"), std::string::npos) << message(o);
    EXPECT_NE(message(o).find("use --grains " + std::to_string(4 * world) + " or fewer"), std::string::npos)
        << message(o);
    o.grains = 4 * world;
    EXPECT_EQ(message(o), "");
  }
  EXPECT_EQ(validation_options(options()).mixup, 0);
  EXPECT_EQ(validation_options(options()).cutmix, 0);
}

}  // namespace
}  // namespace dlpipe::pipeline
