// Weights in parts: cut and put together, and layers that have parts of theirs.
#include "engine/layers/split.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "dlpipe/layers.h"
#include "dlpipe/module.h"
#include "dlpipe/ops.h"
#include "tests/engine/collective/simulated_ranks.h"

namespace dlpipe::engine {
namespace {

using test::on_ranks;

Tensor counted(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 1.0f);
  return Tensor::from<float>(values, shape);
}

void expect_same_bits(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.spec(), expected.spec());
  EXPECT_EQ(std::memcmp(got.raw(), expected.raw(), got.size_bytes()), 0);
}

// Axes that ranks don't divide, and blocks of an axis.
TEST(Split, PartsPutTogetherAreTheWhole) {
  struct Case {
    Shape shape;
    Split split;
  };
  for (const int world : {1, 2, 4}) {
    SimulatedNetwork network(world, {.seed = 3, .most_delay_us = 100});
    for (const Case& one :
         {Case{{13, 6}, {.axis = 0}}, Case{{5, 7}, {.axis = 1}}, Case{{24}, {.axis = 0, .blocks = 3}},
          Case{{2, 30, 3}, {.axis = 1, .blocks = 3}}}) {
      on_ranks(network, world, [&](Collective& ranks) {
        const Tensor whole = counted(one.shape);
        const Tensor part = own_part(whole, one.split, ranks);
        if (world > 1) {
          EXPECT_LT(part.elements(), whole.elements());
        }
        expect_same_bits(whole_of(part, one.split, one.shape[one.split.axis], ranks, "a tensor"), whole);
      });
    }
  }
}

TEST(Split, EachRankHasTheSameHeadsOfQueriesKeysAndValues) {
  SimulatedNetwork network(2, {});
  on_ranks(network, 2, [](Collective& ranks) {
    const Tensor part = own_part(counted({12}), {.axis = 0, .blocks = 3}, ranks);
    const auto expected =
        ranks.rank() == 0 ? std::vector<double>{1, 2, 5, 6, 9, 10} : std::vector<double>{3, 4, 7, 8, 11, 12};
    EXPECT_EQ(part.to_doubles(), expected);
  });
}

// A product of fewer outputs may be another kernel's, which adds up in another order.
void expect_near(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.spec(), expected.spec());
  const std::vector<double> values = got.to_doubles(), wanted = expected.to_doubles();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 1e-5) << i;
}

// 13 rows: ranks have 6 and 7, or 3, 3, 3 and 4. Rows are one rank's and zeros of the others, so their sum has the same bits.
TEST(Split, AnEmbeddingInPartsHasTheRowsOfAWholeOneAndItsLogits) {
  const std::vector<int64_t> ids = {0, 12, 5, 6, 7, 3, 3, 9};
  const Tensor given = Tensor::from<int64_t>(ids, {2, 4});
  Embedding whole(13, 8);
  initialize(whole, 4);
  const Tensor expected = whole(given);
  const Tensor expected_logits = whole.logits(expected);
  for (const int world : {2, 4}) {
    SimulatedNetwork network(world, {});
    on_ranks(network, world, [&](Collective& ranks) {
      Embedding layer(13, 8);
      initialize(layer, 4);
      layer.split_over(ranks);
      ASSERT_EQ(layer.splits().size(), 1U);
      EXPECT_EQ(layer.splits()[0].size, 13);
      const Tensor rows = layer(given);
      expect_same_bits(rows, expected);
      expect_near(layer.logits(rows), expected_logits);
      EXPECT_THROW(layer(Tensor::from<int64_t>(std::vector<int64_t>{13}, {1})), Error);
    });
  }
}

TEST(Split, AnEmbeddingInPartsLooksAtTheIdsOfAViewAlone) {
  const std::vector<int64_t> memory = {4, 99, 7, 99, 12, 3, 13, 3};
  const Tensor all = Tensor::from<int64_t>(memory, {8});
  const auto every_second = [&](int64_t first, int64_t count) {
    return all.view_as({count}, std::array<int64_t, 1>{2}, first);
  };
  Embedding whole(13, 8);
  initialize(whole, 4);
  const Tensor expected = whole(every_second(0, 3));
  SimulatedNetwork network(2, {});
  on_ranks(network, 2, [&](Collective& ranks) {
    Embedding layer(13, 8);
    initialize(layer, 4);
    layer.split_over(ranks);
    expect_same_bits(layer(every_second(0, 3)), expected);
    EXPECT_THROW(layer(every_second(4, 2)), Error) << "13 is no row, though 12 and 3, which lie first, are";
  });
}

TEST(Split, AFrozenWeightStaysFrozen) {
  SimulatedNetwork network(2, {});
  on_ranks(network, 2, [](Collective& ranks) {
    Linear layer(4, 6);
    initialize(layer, 1);
    layer.freeze("weight");
    layer.split_outputs(ranks);
    EXPECT_FALSE(layer.parameters()[0].tensor.requires_grad());
    EXPECT_TRUE(layer.parameters()[1].tensor.requires_grad());
    EXPECT_EQ(layer.parameters()[0].tensor.shape(), (Shape{3, 4}));
  });
}

TEST(Split, WhatRanksDontDivideIsRefused) {
  SimulatedNetwork network(4, {});
  on_ranks(network, 4, [](Collective& ranks) {
    SelfAttention attention(24, 6, false);
    try {
      attention.split_over(ranks);
      ADD_FAILURE() << "6 heads over 4 ranks";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("6 heads can't be split over 4 ranks"), std::string::npos)
          << error.what();
    }
    Embedding table(3, 8);
    EXPECT_THROW(table.split_over(ranks), Error);
  });
}

}  // namespace
}  // namespace dlpipe::engine
