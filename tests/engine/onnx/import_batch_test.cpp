// Sizes that a model computes of its batch: a graph knows those that are a multiple of it, and no answer to how large it is.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>
#include <regex>
#include <string>

#include "tests/engine/onnx/one_node.h"

namespace dlpipe::engine::onnx {
namespace {

// Of x [N,4]: N, and what `op` makes of it and of `number`.
OneNode of_batch(const char* op, int64_t number) {
  return OneNode("Shape").input({2, 4}).any_batch().with("end", 1).then(op).known({number});
}
OneNode of_number(const char* op, int64_t number) {
  return OneNode("Shape").input({2, 4}).any_batch().with("end", 1).then(op).known_first({number});
}

constexpr const char* kWords = "depends on the batch size";

TEST(OnnxBatch, RefusesSharesOfIt) {
  expect_op_refused(of_batch("Div", 2), kWords);  // 1 for 2 samples and for 3
  expect_op_refused(of_batch("Div", 1000), kWords);
  expect_op_refused(of_batch("Mod", 2), kWords);
  expect_op_refused(of_batch("Mod", 1000), kWords);
  expect_op_refused(of_number("Div", 12), kWords);
  expect_op_refused(OneNode("Shape").input({2, 4}).any_batch().with("end", 1).then("Mul").read_again(),
                    kWords);
}

TEST(OnnxBatch, RefusesComparisonsThatHoldForSomeBatches) {
  expect_op_refused(of_batch("Greater", 1), kWords);
  expect_op_refused(of_batch("Greater", 100), kWords);
  expect_op_refused(of_batch("LessOrEqual", 3), kWords);
  expect_op_refused(of_batch("Equal", 77), kWords);
  expect_op_refused(of_number("Equal", 1), kWords);
  expect_op_refused(of_batch("Min", 2), kWords);
  expect_op_refused(of_batch("Max", 1000), kWords);
}

// As positions they are cut off at the ends of an axis, or are past them.
TEST(OnnxBatch, RefusesPositionsThatGrow) {
  // Of x [N,10] up to a multiple of N along an axis.
  const auto cut = [](int64_t times, int64_t axis) {
    return OneNode("Shape")
        .input({2, 10})
        .any_batch()
        .with("end", 1)
        .then("Mul")
        .known({times})
        .then("Slice")
        .known({0})
        .known({axis})
        .reading({"x0", "k2", "m2", "k3"});
  };
  expect_op_refused(cut(5, 1), kWords);
  EXPECT_EQ(cut(10, 1).run()[0].shape().to_string(), "[2,10]");  // as many of any batch
  EXPECT_EQ(cut(1, 0).run()[0].shape().to_string(), "[2,10]");
  expect_op_refused(
      OneNode("Shape").input({2, 4}).any_batch().with("end", 1).then("Gather").known_first({99, 3, 4, 6}),
      "an index depends on the batch size");
  // The first two samples are one of a batch of one.
  const auto samples = [](int64_t end) {
    return OneNode("Slice").input({2, 10}).any_batch().known({0}).known({end}).known({0});
  };
  expect_op_refused(samples(2), kWords);
  expect_op_refused(samples(100), kWords);
  EXPECT_EQ(samples(1).run()[0].shape().to_string(), "[1,10]");
  EXPECT_EQ(samples(std::numeric_limits<int64_t>::max()).run()[0].shape().to_string(), "[2,10]");
  expect_op_refused(
      OneNode("Shape").input({2, 10}).any_batch().with("end", 1).then("Trilu").weights({3, 3}).reading(
          {"w1", "m1"}),
      "its diagonal depends on the batch size");
}

TEST(OnnxBatch, RefusesRangesAndTruthsOfSomeBatches) {
  const auto counted = [](int64_t step) {
    return OneNode("Shape")
        .input({2, 4})
        .any_batch()
        .with("end", 1)
        .then("Range")
        .known_first({0})
        .known({step})
        .then("Shape");
  };
  expect_op_refused(counted(1000), kWords);
  expect_op_refused(counted(1), "for a batch of 3");
  expect_op_refused(of_batch("Sub", 4).then("Cast").with("to", 9), kWords);
  expect_op_refused(of_batch("Add", 250).then("Cast").with("to", 2), kWords);
  EXPECT_EQ(of_batch("Mul", 4).then("Cast").with("to", 9).run()[0].to_doubles(), std::vector<double>{1});
  expect_op_refused(of_batch("Mul", 4).then("Cast").with("to", 6), "for a batch of 3");  // int32
}

// Rows of a table, the same for each sample.
TEST(OnnxBatch, LooksUpKnownIdsOfEachSample) {
  const auto of_sizes = [](const char* op) { return OneNode("Shape").input({2, 2}).any_batch().then(op); };
  expect_gives(of_sizes("Expand")
                   .known_of({1, 2}, {2, 0})
                   .reading({"k1", "m1"})
                   .then("Gather")
                   .weights({3, 1})
                   .reading({"w2", "m2"}),
               {2, 2, 1}, {3, 1, 3, 1});
  expect_gives(
      of_sizes("ConstantOfShape").with_known("value", 1).then("Gather").weights({3, 1}).reading({"w1", "m2"}),
      {2, 2, 1}, {2, 2, 2, 2});
  expect_gives(of_sizes("ConstantOfShape")
                   .with_known("value", 1)
                   .then("Cast")
                   .with("to", 7)
                   .then("Gather")
                   .weights({3, 1})
                   .reading({"w1", "m3"}),
               {2, 2, 1}, {2, 2, 2, 2});
}

TEST(OnnxBatch, RefusesNumbersThatGrow) {
  const auto of = [](const char* op) {
    return OneNode("Shape").input({2, 4}).any_batch().with("end", 1).then("Cast").with("to", 1).then(op);
  };
  expect_op_refused(of("Clip").reading({"x0", "m2"}),
                    "is not one number that is known before the model runs");
  expect_op_refused(of("Pow").reading({"x0", "m2"}), "is not one number that is known before the model runs");
}

// Of two steps the second is asked along the line of the first.
TEST(OnnxBatch, AsksEachStepOfSeveral) {
  expect_op_refused(of_batch("Max", 1).known({5}), kWords);
  expect_op_refused(of_batch("Clip", 1).known_one(5), kWords);
  const auto sizes = [](const char* op) { return OneNode("Shape").input({2, 4}).any_batch().then(op); };
  expect_op_refused(sizes("ReduceMax"), kWords);
  expect_op_refused(sizes("ReduceSum"), "for a batch of 3");
  expect_op_refused(sizes("Split").with("axis", 0).second_output(), "for a batch of 3");
  const auto counted =
      OneNode("Shape").input({2, 4}).any_batch().with("end", 1).then("Range").known_first({0});
  expect_op_refused(OneNode(counted).known({1}).then("ReduceSum"),
                    "the number of integers that it reduces depends on");
  expect_op_refused(OneNode(counted).known({1}).then("Split").second_output(),
                    "the length of the list that it splits depends on");
}

// The integers themselves would be a constant that grows with the batch; that says that they were computed.
TEST(OnnxBatch, TakesWhatIsTheSameForEveryBatch) {
  const auto times_four = [](const char* op, int64_t number) {
    return OneNode("Shape").input({2, 4}).any_batch().with("end", 1).then("Mul").known({4}).then(op).known(
        {number});
  };
  constexpr const char* kGrows = "for a batch of 3";
  expect_op_refused(times_four("Div", 2), kGrows);
  expect_op_refused(times_four("Sub", 3), kGrows);
  expect_op_refused(of_batch("Max", 1), kGrows);
  const auto given = [](const OneNode& node) { return node.run()[0].to_doubles(); };
  EXPECT_EQ(given(of_batch("Equal", -1)), std::vector<double>{0});  // as Expand's sizes are asked
  EXPECT_EQ(given(of_batch("Greater", 0)), std::vector<double>{1});
  EXPECT_EQ(given(of_batch("Min", 1)), std::vector<double>{1});
  EXPECT_EQ(given(times_four("Mod", 4)), std::vector<double>{0});
}

#if !defined(__SANITIZE_ADDRESS__)  // which touches notes on all memory

// `doublings` nodes Concat(d, d), each of what the one before it made: a file of a KB. The first reads the input of 2 numbers, or
// an initializer.
Model doubling(int doublings, bool of_input) {
  Model model;
  model.opsets[""] = 17;
  model.graph_name = "doubling";
  model.inputs = {{"x", ElementType::kFloat, {{1, ""}, {2, ""}}}};
  model.initializers = {{"w", ElementType::kFloat, {1, 2}, std::string(8, '\0')}};
  std::string last = of_input ? "x" : "w";
  for (int i = 0; i < doublings; ++i) {
    const std::string made = "d" + std::to_string(i);
    Attribute axis;
    axis.name = "axis";
    axis.type = Attribute::kInt;
    axis.i = 1;
    model.nodes.push_back({"Concat", "", made, {last, last}, {made}, {axis}});
    last = made;
  }
  model.nodes.push_back({"ReduceMean", "", "mean", {last}, {"mean"}, {}});
  model.nodes.push_back({"Add", "", "y", {"x", "mean"}, {"y"}, {}});
  model.outputs = {{"y", ElementType::kFloat, {}}};
  return model;
}

int64_t most_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

TEST(OnnxMemory, WhatDependsOnTheInputIsNotComputedByAnImport) {
  const int64_t before = most_resident_bytes();
  const graph::Graph graph = import_model(doubling(26, true));  // half a gigabyte in the end
  EXPECT_EQ(graph.nodes.size(), 28u);
  EXPECT_LT(most_resident_bytes() - before, int64_t{200} << 20);
}

TEST(OnnxMemory, GrowthBeyondAMultipleOfTheFileIsRefused) {
  const int64_t before = most_resident_bytes();
  for (const bool of_input : {false, true}) {
    for (const int doublings : {of_input ? 29 : 27, 40, 62}) {
      try {
        import_model(doubling(doublings, of_input));
        FAIL() << doublings;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
        EXPECT_TRUE(
            std::regex_search(error.what(), std::regex("the limit is [0-9.]+ .iB|the [0-9.]+ .iB allowed")))
            << error.what();
      }
    }
  }
  EXPECT_LT(most_resident_bytes() - before, int64_t{600} << 20);
  Model large = doubling(0, true);
  large.inputs[0].dims = {{1, ""}, {int64_t{1} << 31, ""}};
  EXPECT_THROW((void)import_model(large), Error);
}

#endif

}  // namespace
}  // namespace dlpipe::engine::onnx
