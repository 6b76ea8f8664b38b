#include <gtest/gtest.h>

#include <cmath>

#include "dlpipe/ops.h"
#include "run/input/box_target.h"
#include "run/task/coco_map.h"
#include "run/task/detections.h"
#include "run/task/task.h"

namespace dlpipe::run {
namespace {

using engine::Tensor;

constexpr int64_t kCells = 40, kClasses = 5, kWidth = kClasses + 4;

/// make_golden.py has the same.
class Draws {
 public:
  explicit Draws(uint32_t seed) : state_(seed) {}
  uint32_t next() {
    state_ = state_ * 1664525 + 1013904223;
    return state_ >> 16;
  }

 private:
  uint32_t state_;
};

// ---- targets

/// The cells of a target that have an object: class, and sides in strides.
struct Cell {
  int64_t row, column, label;
  std::array<float, 4> sides;
  friend bool operator==(const Cell&, const Cell&) = default;
};

std::vector<Cell> cells_of(const BoxTarget& target, const BoxGrid& grid, int64_t sample, int64_t classes) {
  std::vector<Cell> cells;
  for (int64_t i = 0; i < grid.cells(); ++i) {
    const float* const row = target.rows.data<float>() + (sample * grid.cells() + i) * (classes + 4);
    for (int64_t label = 0; label < classes; ++label) {
      if (row[label] == 1)
        cells.push_back({i / grid.columns(),
                         i % grid.columns(),
                         label,
                         {row[classes], row[classes + 1], row[classes + 2], row[classes + 3]}});
    }
  }
  return cells;
}

BoxObjects one_image(std::vector<BoxObject> objects) {
  const auto count = static_cast<int64_t>(objects.size());
  return {std::move(objects), {0, count}};
}

TEST(BoxTarget, CellsNearAnObjectsMiddleHaveItsSides) {
  const BoxGrid grid{.height = 50, .width = 64, .stride = 8};
  EXPECT_EQ(grid.rows(), 7);
  EXPECT_EQ(grid.cells(), 56);
  const std::vector<float> weights = {0.5f};
  // The middle is (20, 20): of the middles 4, 12, 20, 28 ... those from 8 to 32 are near enough.
  const BoxTarget target = box_target(one_image({{{0, 0, 40, 40}, 1, false}}), weights, grid, 3);
  const std::vector<Cell> cells = cells_of(target, grid, 0, 3);
  ASSERT_EQ(cells.size(), 9u);
  EXPECT_EQ(cells[0], (Cell{1, 1, 1, {1.5f, 1.5f, 3.5f, 3.5f}}));
  EXPECT_EQ(cells[8], (Cell{3, 3, 1, {3.5f, 3.5f, 1.5f, 1.5f}}));
  for (int64_t i = 0; i < grid.cells(); ++i) EXPECT_EQ(target.weight.data<float>()[i], 0.5f);
}

TEST(BoxTarget, OfTwoObjectsACellHasTheSmallerOne) {
  const BoxGrid grid{.height = 32, .width = 32, .stride = 8};
  const std::vector<float> weights = {1};
  for (const bool small_first : {false, true}) {
    std::vector<BoxObject> objects = {{{0, 0, 32, 32}, 0, false}, {{10, 10, 14, 14}, 1, false}};
    if (small_first) std::swap(objects[0], objects[1]);
    const std::vector<Cell> cells = cells_of(box_target(one_image(objects), weights, grid, 2), grid, 0, 2);
    ASSERT_EQ(cells.size(), 4u);  // the four around (16, 16), of which (12, 12) is the small one's
    EXPECT_EQ(cells[0], (Cell{1, 1, 1, {0.25f, 0.25f, 0.25f, 0.25f}}));
    EXPECT_EQ(cells[1].label, 0);
  }
}

TEST(BoxTarget, AnObjectWithoutAMiddleInItHasTheCellThatItIsIn) {
  const BoxGrid grid{.height = 16, .width = 16, .stride = 8};
  const std::vector<float> weights = {1};
  const BoxTarget target = box_target(one_image({{{5, 1, 7, 3}, 0, false}}), weights, grid, 1);
  EXPECT_EQ(cells_of(target, grid, 0, 1), (std::vector<Cell>{{0, 0, 0, {0, 0.375f, 0.375f, 0}}}));
}

TEST(BoxTarget, CellsInACrowdDoNotCountUnlessAnObjectHasThem) {
  const BoxGrid grid{.height = 16, .width = 32, .stride = 8};
  const std::vector<float> weights = {1, 1};
  const BoxObjects objects{{{{0, 0, 16, 16}, 0, true}, {{0, 0, 8, 8}, 0, false}}, {0, 0, 2}};
  const BoxTarget target = box_target(objects, weights, grid, 1);
  EXPECT_TRUE(cells_of(target, grid, 0, 1).empty());
  EXPECT_EQ(cells_of(target, grid, 1, 1).size(), 1u);
  const std::vector<float> expected = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1};
  EXPECT_EQ(std::vector<float>(target.weight.data<float>(), target.weight.data<float>() + 16), expected);
}

TEST(BoxTarget, WhatCannotBeLearnedIsLeftOut) {
  const BoxGrid grid{.height = 16, .width = 16, .stride = 8};
  const std::vector<float> weights = {1};
  const BoxTarget target =
      box_target(one_image({{{3, 3, 3, 9}, 0, false}, {{0, 0, 9, 9}, 7, false}, {{0, 0, 9, 9}, -1, false}}),
                 weights, grid, 1);
  EXPECT_TRUE(cells_of(target, grid, 0, 1).empty());
}

TEST(BoxObjects, PartsHaveTheirOwnOffsets) {
  const BoxObjects objects{{{{}, 3, false}, {{}, 4, false}, {{}, 5, false}}, {0, 1, 1, 3}};
  const BoxObjects part = objects.part(1, 2);
  EXPECT_EQ(part.offsets, (std::vector<int64_t>{0, 0, 2}));
  ASSERT_EQ(part.of(1).size(), 2u);
  EXPECT_EQ(part.of(1)[0].label, 4);
}

// ---- losses: the numbers of torchvision, which make_golden.py prints

struct DetectorLossCase {
  const char* name;
  double value, gradients, of_side, of_class;
};

class DetectorLoss : public testing::TestWithParam<DetectorLossCase> {};

TEST_P(DetectorLoss, ValueAndGradientAreThoseOfTorchvision) {
  const DetectorLossCase& c = GetParam();
  std::vector<float> outputs, target, weights;
  Draws of_outputs(1), of_sides(2);
  for (int64_t i = 0; i < kCells; ++i) {
    for (int64_t k = 0; k < kWidth; ++k)
      outputs.push_back(static_cast<float>(of_outputs.next() % 25) / 4 - 3);
    for (int64_t k = 0; k < kClasses; ++k) target.push_back(i % 3 == 0 && k == i % kClasses ? 1.0f : 0.0f);
    for (int side = 0; side < 4; ++side)
      target.push_back(static_cast<float>(of_sides.next() % 16) / 4 + 0.25f);
    weights.push_back(i % 7 == 3 ? 0.0f : 1.0f);
  }
  const Tensor x = Tensor::from(std::span<const float>(outputs), {2, 4, 5, kWidth}).set_requires_grad(true);
  const Tensor loss = (*find_loss(c.name))
                          ->compute(x, Tensor::from(std::span<const float>(target), {kCells, kWidth}),
                                    Tensor::from(std::span<const float>(weights), {kCells}), {});
  EXPECT_EQ(loss.rank(), 0);
  loss.backward();
  EXPECT_NEAR(loss.item(), c.value, 1e-5);
  const std::vector<double> gradient = x.grad().to_doubles();
  double sum = 0;
  for (const double value : gradient) sum += std::fabs(value);
  EXPECT_NEAR(sum, c.gradients, 1e-4);
  EXPECT_NEAR(gradient[6], c.of_side, 1e-6);
  EXPECT_NEAR(gradient[kWidth + 2], c.of_class, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    OfTorchvision, DetectorLoss,
    testing::Values(DetectorLossCase{"fcos", 7.706502438, 4.711024284, 0.003533931, 0.000576791},
                    DetectorLossCase{"fcos_diou", 7.501792431, 4.564074039, 0.001082156, 0.000576791}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(DetectorLoss, WithoutObjectsOrWithHugeOutputsItIsFinite) {
  for (const char* name : {"fcos", "fcos_diou"}) {
    for (const float output : {-200.0f, 0.0f, 200.0f}) {
      const Tensor x = Tensor::full({1, 2, 2, 6}, output, DType::kF32).set_requires_grad(true);
      const Tensor loss =
          (*find_loss(name))->compute(x, Tensor::zeros({4, 6}), Tensor::full({4}, 1, DType::kF32), {});
      loss.backward();
      EXPECT_TRUE(std::isfinite(loss.item())) << name << " of " << output;
      for (const double value : x.grad().to_doubles()) EXPECT_TRUE(std::isfinite(value)) << name;
    }
  }
}

// ---- boxes of outputs

TEST(FindBoxes, TurnsCellsIntoBoxesThatEndWithTheImage) {
  const BoxGrid grid{.height = 16, .width = 20, .stride = 8};
  std::vector<float> outputs(static_cast<size_t>(grid.cells() * 6), -10.0f);
  float* const cell = &outputs[4 * 6];  // of row 1, column 1: the middle is (12, 12)
  cell[1] = 2;
  cell[2] = std::log(0.5f);
  cell[3] = std::log(1.0f);
  cell[4] = std::log(0.75f);
  cell[5] = std::log(2.0f);
  const std::vector<FoundBox> found = find_boxes(outputs, grid, 2);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_NEAR(found[0].score, 1 / (1 + std::exp(-2.0)), 1e-6);
  const std::array<float, 4> expected = {8, 4, 18, 16};
  for (size_t side = 0; side < 4; ++side) EXPECT_NEAR(found[0].box[side], expected[side], 1e-5);
}

TEST(FindBoxes, LeavesOutLowScoresAndWhatIsNotFinite) {
  const BoxGrid grid{.height = 8, .width = 24, .stride = 8};
  const float nan = std::nanf("");
  const std::vector<float> outputs = {-2.95f, 0, 0, 0, 0, nan, 0, 0, 0, 0, 3, 0, nan, 0, 0};
  EXPECT_TRUE(find_boxes(outputs, grid, 1).empty());
}

TEST(FindBoxes, ReturnsAtMostAHundredTheBestFirst) {
  const BoxGrid grid{.height = 160, .width = 160, .stride = 8};
  std::vector<float> outputs;
  for (int64_t i = 0; i < grid.cells(); ++i)
    for (const float value : {static_cast<float>(i % 37) / 10, -2.0f, -2.0f, -2.0f, -2.0f})
      outputs.push_back(value);
  const std::vector<FoundBox> found = find_boxes(outputs, grid, 1);
  ASSERT_EQ(found.size(), 100u);
  for (size_t i = 1; i < found.size(); ++i) EXPECT_LE(found[i].score, found[i - 1].score);
}

TEST(SuppressOverlaps, KeepsTheBoxesOfTorchvision) {
  Draws draws(3);
  std::vector<FoundBox> boxes;
  for (int i = 0; i < 60; ++i) {
    std::array<uint32_t, 6> drawn{};
    for (uint32_t& value : drawn) value = draws.next();
    const auto x = static_cast<float>(drawn[0] % 40), y = static_cast<float>(drawn[1] % 40);
    boxes.push_back(
        {{x, y, x + static_cast<float>(drawn[2] % 20 + 5), y + static_cast<float>(drawn[3] % 20 + 5)},
         drawn[5] % 3,
         static_cast<float>(drawn[4] % 50) / 64});
  }
  const std::vector<size_t> expected = {56, 1,  40, 18, 26, 32, 43, 4,  51, 52, 44, 30, 9,  24,
                                        3,  12, 39, 0,  25, 27, 19, 23, 17, 20, 35, 36, 50, 54,
                                        16, 15, 21, 33, 38, 53, 14, 46, 10, 13, 37, 49, 28, 34,
                                        41, 2,  29, 47, 59, 7,  45, 6,  8,  57, 55};
  EXPECT_EQ(suppress_overlaps(boxes, 0.4f), expected);
}

// ---- the metric, by hand; tests/interop/read_boxes.py compares it with pycocotools

TEST(CocoMap, CountsWhatIsRightMissedAndFoundTwice) {
  // Two objects of class 0; the first is found, then again, and the second is not: precision 1 up to a recall of a half.
  const std::vector<MapImage> images = {{{{{0, 0, 10, 10}, 0, 0.9f}, {{0, 0, 10, 10}, 0, 0.8f}},
                                         {{{0, 0, 10, 10}, 0, false}, {{50, 50, 60, 60}, 0, false}}}};
  const std::vector<ClassMap> maps = coco_map(images, 2);
  EXPECT_NEAR(maps[0].ap, 51.0 / 101, 1e-12);
  EXPECT_NEAR(maps[0].small, 51.0 / 101, 1e-12);
  EXPECT_TRUE(std::isnan(maps[0].large));
  EXPECT_TRUE(std::isnan(maps[1].ap));
  EXPECT_EQ(maps[0].objects, 2);
  EXPECT_EQ(maps[0].found, 2);
  EXPECT_NEAR(mean_of(maps, &ClassMap::ap), 51.0 / 101, 1e-12);
  EXPECT_TRUE(std::isnan(mean_of(maps, &ClassMap::large)));
}

TEST(CocoMap, WhatIsFoundInACrowdIsNeitherRightNorWrong) {
  const std::vector<MapImage> images = {
      {{{{0, 0, 5, 5}, 0, 0.9f}, {{5, 5, 10, 10}, 0, 0.8f}, {{50, 50, 60, 60}, 0, 0.7f}},
       {{{0, 0, 20, 20}, 0, true}, {{50, 50, 60, 60}, 0, false}}}};
  EXPECT_NEAR(coco_map(images, 1)[0].ap, 1, 1e-12);
}

TEST(Detect, ATallyHoldsWhatTheMetricsNeedHoweverItIsCut) {
  const TaskRecord& task = *value_or_throw(TaskRegistry::builtin().find("detect"));
  const TaskState state{.name = "detect", .fields = {"boxes", "box_labels"}, .stride = 8};
  std::vector<const engine::MetricRecord*> metrics;
  for (const std::string& name : task.metrics()) metrics.push_back(value_or_throw(engine::find_metric(name)));
  // A box of class 1 in each of four images of one cell, found in three; the last sample does not count.
  std::vector<float> outputs;
  BatchInput input;
  input.pixels = Tensor::zeros({4, 8, 8, 3});
  input.target = Tensor::zeros({4, 6});
  input.weight = Tensor::full({4}, 1, DType::kF32);
  input.sample_weight = {1, 1, 1, 0};
  for (const float logit : {2.0f, -9.0f, 1.0f, 3.0f}) {
    for (const float value :
         {-9.0f, logit, std::log(0.25f), std::log(0.25f), std::log(0.25f), std::log(0.25f)})
      outputs.push_back(value);
    input.objects.all.push_back({{2, 2, 6, 6}, 1, false});
    input.objects.offsets.push_back(static_cast<int64_t>(input.objects.all.size()));
  }
  const Tensor all = Tensor::from(std::span<const float>(outputs), {4, 1, 1, 6});
  std::vector<std::vector<double>> values;
  for (const int64_t parts : {1, 2, 4}) {
    std::vector<std::string> tallies;
    for (int64_t part = 0; part < parts; ++part) {
      const auto tally = task.tally(metrics, state);
      const int64_t count = 4 / parts;
      tally->add(engine::slice(all, 0, part * count, (part + 1) * count).contiguous_copy(),
                 input.part(part, parts));
      tallies.push_back(tally->bytes());
    }
    values.push_back(task.judge(tallies, metrics, state));
    const std::vector<std::string> names = {"cat", "dog"};
    const TaskReport report = task.report(tallies, state, names);
    EXPECT_EQ(report.rows[1].second[0], 3);
    EXPECT_EQ(report.rows[1].second[1], 2);
    EXPECT_TRUE(std::isnan(report.rows[0].second[2]));
  }
  EXPECT_NEAR(values[0][1], 67.0 / 101, 1e-9);
  EXPECT_EQ(bytes_of(values[1]), bytes_of(values[0]));  // NaN equals itself so
  EXPECT_EQ(bytes_of(values[2]), bytes_of(values[0]));
}

}  // namespace
}  // namespace dlpipe::run
