// The ops made of matrix products over the simulated grid, on what their records' samples leave out: every
// width of tiles, several blocks, tiles and chunks, packs, filters per channel, stretched operands.
#include <gtest/gtest.h>

#include "dlpipe/ops.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/products.h"
#include "engine/ops/sequences.h"
#include "tests/engine/cuda/check_simulated.h"
#include "tests/engine/cuda/large_samples.h"

namespace dlpipe::engine {
namespace {

TEST(Products, OfLinear) {
  check_simulated("linear", []() -> std::vector<OpSample> {
    return {{"packs of a bias", {{{40, 9}}, {{16, 9}}, {{16}}}, LinearAttrs{}},
            {"several blocks of a bias", {{{3, 70, 4}}, {{37, 4}}, {{37}}}, LinearAttrs{}},
            {"several blocks, relu", {{{3, 11, 4}}, {{37, 4}}, {{37}}}, LinearAttrs{Activation::kRelu}},
            {"several blocks, gelu", {{{3, 70, 4}}, {{37, 4}}}, LinearAttrs{Activation::kGelu}}};
  });
}

TEST(Products, OfLinearWithLongRows) {
  check_kernels("linear", simulated_kernels("linear"), linear_of_long_rows);
}

/// As on a device with cublasLt, whose products add a bias and sum up its gradient.
TEST(Products, TakeABiasAlong) {
  const SimulatedEpilogues library;
  check_kernels("linear", simulated_kernels("linear"));
  check_kernels("conv2d", simulated_kernels("conv2d"));
  EXPECT_GT(library.biases(), 10);
  EXPECT_GT(library.sums(), 5);
  EXPECT_EQ(library.biases_of_pitched_rows(), 0);
  check_kernels("linear", simulated_kernels("linear"), [] {
    return std::vector<OpSample>{linear_of_long_rows().back()};  // the one with a bias
  });
  EXPECT_GE(library.biases_of_pitched_rows(), 2);  // in bf16 and in f16
}

TEST(Products, OfMatmul) {
  check_simulated("matmul", []() -> std::vector<OpSample> {
    return {{"stretched a, transposed", {{{2, 1, 7, 5}}, {{3, 4, 7}}}, MatmulAttrs{true, true}},
            {"stretched b in the middle", {{{2, 3, 4, 5, 6}}, {{2, 1, 4, 6, 3}}}, MatmulAttrs{}},
            {"one a for all", {{{7, 5}}, {{2, 3, 7, 4}}}, MatmulAttrs{true, false}},
            {"no terms", {{{3, 2, 0}}, {{0, 4}}}, MatmulAttrs{}},
            {"one b for all, transposed", {{{6, 5, 7}}, {{4, 7}}}, MatmulAttrs{false, true}}};
  });
}

TEST(Products, OfConv2d) {
  check_simulated("conv2d", []() -> std::vector<OpSample> {
    return {
        {"1x1, groups", {{{2, 4, 3, 8}}, {{6, 4, 1, 1}}, {{6}}}, Conv2dAttrs{.groups = 2}},
        {"packs of groups",
         {{{2, 5, 4, 16}}, {{6, 8, 3, 3}}},
         Conv2dAttrs{.stride = {2, 1}, .padding = {1, 2}, .groups = 2}},
        {"1x1, padded", {{{2, 3, 3, 4}}, {{5, 4, 1, 1}}, {{5}}}, Conv2dAttrs{.padding = {1, 1}}},
        {"one channel", {{{3, 6, 6, 1}}, {{4, 1, 3, 3}}, {{4}}}, Conv2dAttrs{}},
        {"filters per channel",
         {{{2, 6, 5, 3}}, {{6, 1, 3, 2}}, {{6}}},
         Conv2dAttrs{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 3}},
        {"tiles of channels",
         {{{2, 4, 5, 40}}, {{40, 1, 3, 3}}, {{40}}},
         Conv2dAttrs{.padding = {1, 1}, .groups = 40}},
        {"many images, a filter per channel", {{{130, 3, 3, 2}}, {{2, 1, 2, 2}}}, Conv2dAttrs{.groups = 2}}};
  });
}

TEST(Products, OfSelfAttention) {
  check_simulated("self_attention", []() -> std::vector<OpSample> {
    return {{"64 wide", {{{2, 40, 3 * 64}}}, AttentionAttrs{1, false}, -2, 2},
            {"64 wide, causal", {{{1, 70, 3 * 2 * 64}}}, AttentionAttrs{2, true}, -1, 1},
            {"40 wide, causal", {{{1, 33, 3 * 2 * 40}}}, AttentionAttrs{2, true}, -2, 2},
            {"32 wide, whole blocks", {{{2, 64, 3 * 32}}}, AttentionAttrs{1, true}, -2, 2},
            {"128 wide", {{{1, 40, 3 * 128}}}, AttentionAttrs{1, false}, -1, 1},
            {"100 wide, causal", {{{1, 49, 3 * 100}}}, AttentionAttrs{1, true}, -1, 1}};
  });
}

TEST(Products, WiderHeadsAreNotTaken) {
  for (const SimulatedRow& row : simulated_table()) {
    if (std::string_view(row.name) != "self_attention") continue;
    const TensorSpec wide = {{1, 4, 3 * 129}};
    EXPECT_FALSE(row.kernels->supports(std::span(&wide, 1), AttentionAttrs{1, false}));
  }
}

}  // namespace
}  // namespace dlpipe::engine
