#include "engine/ops/records.h"

#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/op.h"

namespace dlpipe::engine {

static std::vector<TensorSpec> first_input(std::span<const TensorSpec> inputs, std::span<const bool>,
                                           const Attrs&) {
  return {inputs[0]};
}

/// The first inputs that benchmarks give an op with one sample of these.
static std::vector<TensorSpec> grown(std::vector<OpSample> (*samples)()) {
  OpRecord record;
  record.name = "test_op";
  record.infer = first_input;
  record.samples = samples;
  const std::vector<OpSample> found = bench_samples(record);
  EXPECT_EQ(found.size(), 1U);
  return found.at(0).inputs;
}

TEST(BenchSamples, GrowToSixteenMillionElementsAlongTheFirstAxis) {
  constexpr int64_t kElements = int64_t{1} << 24;
  EXPECT_EQ(grown([] { return std::vector<OpSample>{{"one", {{{1}}}, {}}}; })[0].shape, Shape({kElements}));
  const auto pair = grown([] { return std::vector<OpSample>{{"pair", {{{4, 8}}, {{4}}, {{8}}}, {}}}; });
  EXPECT_EQ(pair[0].shape, Shape({kElements / 8, 8}));
  EXPECT_EQ(pair[1].shape, Shape({kElements / 8})) << "what is as long as it grows with it";
  EXPECT_EQ(pair[2].shape, Shape({8}));
}

TEST(BenchSamples, WithoutAnythingToGrowStayAsTheyAre) {
  EXPECT_EQ(grown([] { return std::vector<OpSample>{{"none", {{{0, 3}}}, {}}}; })[0].shape, Shape({0, 3}));
  EXPECT_EQ(grown([] { return std::vector<OpSample>{{"number", {{{}}}, {}}}; })[0].shape, Shape());
}

}  // namespace dlpipe::engine
