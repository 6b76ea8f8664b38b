#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/ops.h"
#include "engine/models/box_coding.h"
#include "io/formats/json.h"
#include "run/input/batch_input.h"
#include "run/input/box_coding.h"
#include "run/task/coco_map.h"
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
  /// From -4 to 4, of 24 bits, so that no two are equal.
  double fine() {
    next();
    return static_cast<double>(state_ >> 8) / (1 << 21) - 4;
  }

 private:
  uint32_t state_;
};

const engine::BoxCoding kGrid = {.stride = 8};

/// Cells of 8 pixels.
BoxRows cells_over(int64_t height, int64_t width, int64_t classes) {
  return {kGrid, height, width, classes};
}

// ---- targets

/// The cells of a target that have an object: class, and sides in strides.
struct Cell {
  int64_t row, column, label;
  std::array<float, 4> sides;
  friend bool operator==(const Cell&, const Cell&) = default;
};

std::vector<Cell> cells_of(const BoxTarget& target, const BoxRows& grid, int64_t sample) {
  const int64_t classes = grid.classes, columns = (grid.width + 7) / 8,
                count = (grid.height + 7) / 8 * columns;
  std::vector<Cell> cells;
  for (int64_t i = 0; i < count; ++i) {
    const float* const row = target.rows.data<float>() + (sample * count + i) * (classes + 4);
    for (int64_t label = 0; label < classes; ++label) {
      if (row[label] == 1)
        cells.push_back({i / columns,
                         i % columns,
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
  const BoxRows grid = cells_over(50, 64, 3);
  EXPECT_EQ((*find_box_coding(kGrid))->rows(grid), 56);
  const std::vector<float> weights = {0.5f};
  // The middle is (20, 20): of the middles 4, 12, 20, 28 ... those from 8 to 32 are near enough.
  const BoxTarget target = box_target(grid, one_image({{{0, 0, 40, 40}, 1, false}}), weights);
  const std::vector<Cell> cells = cells_of(target, grid, 0);
  ASSERT_EQ(cells.size(), 9u);
  EXPECT_EQ(cells[0], (Cell{1, 1, 1, {1.5f, 1.5f, 3.5f, 3.5f}}));
  EXPECT_EQ(cells[8], (Cell{3, 3, 1, {3.5f, 3.5f, 1.5f, 1.5f}}));
  for (int64_t i = 0; i < 56; ++i) EXPECT_EQ(target.weight.data<float>()[i], 0.5f);
}

TEST(BoxTarget, OfTwoObjectsACellHasTheSmallerOne) {
  const BoxRows grid = cells_over(32, 32, 2);
  const std::vector<float> weights = {1};
  for (const bool small_first : {false, true}) {
    std::vector<BoxObject> objects = {{{0, 0, 32, 32}, 0, false}, {{10, 10, 14, 14}, 1, false}};
    if (small_first) std::swap(objects[0], objects[1]);
    const std::vector<Cell> cells = cells_of(box_target(grid, one_image(objects), weights), grid, 0);
    ASSERT_EQ(cells.size(), 4u);  // the four around (16, 16), of which (12, 12) is the small one's
    EXPECT_EQ(cells[0], (Cell{1, 1, 1, {0.25f, 0.25f, 0.25f, 0.25f}}));
    EXPECT_EQ(cells[1].label, 0);
  }
}

TEST(BoxTarget, AnObjectWithoutAMiddleInItHasTheCellThatItIsIn) {
  const BoxRows grid = cells_over(16, 16, 1);
  const std::vector<float> weights = {1};
  const BoxTarget target = box_target(grid, one_image({{{5, 1, 7, 3}, 0, false}}), weights);
  EXPECT_EQ(cells_of(target, grid, 0), (std::vector<Cell>{{0, 0, 0, {0, 0.375f, 0.375f, 0}}}));
}

TEST(BoxTarget, CellsInACrowdDoNotCountUnlessAnObjectHasThem) {
  const BoxRows grid = cells_over(16, 32, 1);
  const std::vector<float> weights = {1, 1};
  const BoxObjects objects{{{{0, 0, 16, 16}, 0, true}, {{0, 0, 8, 8}, 0, false}}, {0, 0, 2}};
  const BoxTarget target = box_target(grid, objects, weights);
  EXPECT_TRUE(cells_of(target, grid, 0).empty());
  EXPECT_EQ(cells_of(target, grid, 1).size(), 1u);
  const std::vector<float> expected = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1};
  EXPECT_EQ(std::vector<float>(target.weight.data<float>(), target.weight.data<float>() + 16), expected);
}

TEST(BoxTarget, WhatCannotBeLearnedIsLeftOut) {
  const BoxRows grid = cells_over(16, 16, 1);
  const std::vector<float> weights = {1};
  const BoxTarget target = box_target(
      grid, one_image({{{3, 3, 3, 9}, 0, false}, {{0, 0, 9, 9}, 7, false}, {{0, 0, 9, 9}, -1, false}}),
      weights);
  EXPECT_TRUE(cells_of(target, grid, 0).empty());
}

TEST(BoxObjects, PartsHaveTheirOwnOffsets) {
  const BoxObjects objects{{{{}, 3, false}, {{}, 4, false}, {{}, 5, false}}, {0, 1, 1, 3}};
  const BoxObjects part = objects.part(1, 2);
  EXPECT_EQ(part.offsets, (std::vector<int64_t>{0, 0, 2}));
  ASSERT_EQ(part.of(1).size(), 2u);
  EXPECT_EQ(part.of(1)[0].label, 4);
}

TEST(BoxObjects, TheErrorNamesTheFieldWhoseNumberOfValuesDiffers) {
  const std::vector<FieldSpec> specs = {{"image", DType::kU8, {1, 1, 1}},
                                        {"boxes", DType::kF32, {4}, true},
                                        {"box_labels", DType::kI64, {}, true},
                                        {"crowd", DType::kU8, {}, true}};
  std::array<uint64_t, 8> values = {};
  auto* const data = reinterpret_cast<std::byte*>(values.data());
  const std::vector<float> weight = {1};
  const std::vector<int64_t> one = {0, 1}, two = {0, 2};
  const TargetSpec target = {.form = TargetSpec::Form::kBoxes, .fields = {"boxes", "box_labels", "crowd"}};
  for (const size_t other : {2u, 3u}) {
    Batch batch;
    batch.count = batch.capacity = 1;
    batch.weight = weight;
    batch.fields.push_back({&specs[0], data, {}});
    for (size_t f = 1; f < specs.size(); ++f)
      batch.fields.push_back({&specs[f], data, f == other ? one : two});
    try {
      batch_input(batch, cpu_device(), target);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("values of a sample in '" + specs[other].name + "'"),
                std::string::npos)
          << error.what();
    }
  }
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
  const BoxRows grid = cells_over(16, 20, 2);
  std::vector<float> outputs(size_t{6 * 6}, -10.0f);
  float* const cell = &outputs[4 * 6];  // of row 1, column 1: the middle is (12, 12)
  cell[1] = 2;
  cell[2] = std::log(0.5f);
  cell[3] = std::log(1.0f);
  cell[4] = std::log(0.75f);
  cell[5] = std::log(2.0f);
  const std::vector<FoundBox> found = find_boxes(grid, outputs);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_NEAR(found[0].score, 1 / (1 + std::exp(-2.0)), 1e-6);
  const std::array<float, 4> expected = {8, 4, 18, 16};
  for (size_t side = 0; side < 4; ++side) EXPECT_NEAR(found[0].box[side], expected[side], 1e-5);
}

TEST(FindBoxes, LeavesOutLowScoresAndWhatIsNotFinite) {
  const BoxRows grid = cells_over(8, 24, 1);
  const float nan = std::nanf("");
  const std::vector<float> outputs = {-2.95f, 0, 0, 0, 0, nan, 0, 0, 0, 0, 3, 0, nan, 0, 0};
  EXPECT_TRUE(find_boxes(grid, outputs).empty());
}

TEST(FindBoxes, ReturnsAtMostAHundredTheBestFirst) {
  const BoxRows grid = cells_over(160, 160, 1);
  std::vector<float> outputs;
  for (int64_t i = 0; i < 400; ++i)
    for (const float value : {static_cast<float>(i % 37) / 10, -2.0f, -2.0f, -2.0f, -2.0f})
      outputs.push_back(value);
  const std::vector<FoundBox> found = find_boxes(grid, outputs);
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

// ---- torchvision's detectors over two images of 48 x 64: losses, gradients and boxes of make_golden.py

struct FoundCase {
  size_t boxes;
  int64_t labels;  // their sum, as the others
  double scores, sides, first_side, last_score;
};

struct AnchorsCase {
  const char* name;
  int64_t rows;
  double value, gradients, weighed_gradients;
  std::array<FoundCase, 2> found;
};

/// AnchorGenerator's, of a cell.
std::vector<std::array<float, 4>> anchors_of(std::span<const float> sizes) {
  std::vector<std::array<float, 4>> anchors;
  for (const float ratio : {0.5f, 1.0f, 2.0f}) {
    const float down = std::sqrt(ratio), across = 1 / down;
    for (const float size : sizes) {
      const float width = std::nearbyint(across * size / 2), height = std::nearbyint(down * size / 2);
      anchors.push_back({-width, -height, width, height});
    }
  }
  return anchors;
}

/// DefaultBoxGenerator's.
std::vector<std::array<float, 4>> shares_of(double scale, double next, const std::vector<double>& ratios) {
  const auto share = [](double width, double height) {
    return std::array<float, 4>{0, 0, static_cast<float>(width), static_cast<float>(height)};
  };
  std::vector<std::array<float, 4>> shares = {share(scale, scale),
                                              share(std::sqrt(scale * next), std::sqrt(scale * next))};
  for (const double ratio : ratios) {
    const double across = scale * std::sqrt(ratio), down = scale / std::sqrt(ratio);
    shares.push_back(share(across, down));
    shares.push_back(share(down, across));
  }
  return shares;
}

engine::BoxCoding small_coding(std::string_view name) {
  engine::BoxCoding coding{.name = std::string(name), .others = 5, .height = 48, .width = 64};
  coding.levels = {{6, 8, {8, 8}, {{-4, -4, 4, 4}}}, {3, 4, {16, 16}, {{-8, -8, 8, 8}}}};
  coding.topk_candidates = 1000;
  if (name == "fcos") {
    coding.score_thresh = 0.2;
    coding.nms_thresh = 0.6;
    coding.detections_per_img = 100;
    coding.center_sampling_radius = 1.5;
    return coding;
  }
  coding.fg_iou_thresh = 0.5;
  if (name.starts_with("retinanet")) {
    coding.others = 4;
    coding.score_thresh = 0.05;
    coding.nms_thresh = 0.5;
    coding.detections_per_img = 300;
    coding.bg_iou_thresh = 0.4;
    coding.levels[0].anchors = anchors_of(std::array{10.0f, 14.0f});
    coding.levels[1].anchors = anchors_of(std::array{24.0f, 32.0f});
    return coding;
  }
  coding.score_thresh = 0.01;
  coding.nms_thresh = 0.45;
  coding.topk_candidates = 400;
  coding.detections_per_img = 200;
  coding.bg_iou_thresh = 0.5;
  coding.neg_to_pos_ratio = 3;
  coding.weights = {10, 10, 5, 5};
  coding.levels = {{6, 8, {6, 8}, shares_of(0.2, 0.5, {2})}, {3, 4, {3, 4}, shares_of(0.5, 0.9, {2, 3})}};
  return coding;
}

BoxObjects drawn_objects(int64_t classes) {
  Draws draws(2);
  BoxObjects objects;
  for (int image = 0; image < 2; ++image) {
    for (const double size : {8.0, 13.0, 22.0, 37.0}) {
      std::array<double, 5> drawn{};
      for (double& number : drawn) number = draws.fine();
      const double w = size * (1 + drawn[2] / 16), h = size * (1 + drawn[3] / 16);
      const double x = (64 - w) * (drawn[0] + 4) / 8, y = (48 - h) * (drawn[1] + 4) / 8;
      objects.all.push_back({{static_cast<float>(x), static_cast<float>(y), static_cast<float>(x + w),
                              static_cast<float>(y + h)},
                             static_cast<int64_t>((drawn[4] + 4) / 8 * static_cast<double>(classes)),
                             false});
    }
    objects.offsets.push_back(static_cast<int64_t>(objects.all.size()));
  }
  return objects;
}

class AnchorBoxes : public testing::TestWithParam<AnchorsCase> {
 protected:
  AnchorBoxes() : coding_(small_coding(GetParam().name)), record_(**find_box_coding(coding_)) {
    Draws draws(1);
    const int64_t width = kOwn + coding_.others, count = 2 * GetParam().rows * width;
    for (int64_t i = 0; i < count; ++i) {
      const bool is_code = coding_.name == "fcos" ? i % width >= 3 && i % width < 7 : i % width >= width - 4;
      const double value = draws.fine();
      outputs_.push_back(static_cast<float>(!is_code                 ? value
                                            : coding_.name == "fcos" ? std::fabs(value)
                                                                     : value / 4));
    }
  }
  BoxRows rows() const { return {coding_, 48, 64, kOwn}; }

  static constexpr int64_t kOwn = 3;
  const engine::BoxCoding coding_;
  const BoxCodingRecord& record_;
  std::vector<float> outputs_;
};

TEST_P(AnchorBoxes, LossAndGradientAreThoseOfTorchvision) {
  const AnchorsCase& c = GetParam();
  ASSERT_EQ(record_.rows(rows()), c.rows);
  const std::vector<float> weights = {1, 1};
  const BoxTarget target = box_target(rows(), drawn_objects(kOwn), weights);
  const Tensor x = Tensor::from(std::span<const float>(outputs_), {2, c.rows, kOwn + coding_.others})
                       .set_requires_grad(true);
  const Tensor loss = (*find_loss(record_.loss))->compute(x, target.rows, target.weight, {});
  EXPECT_EQ(loss.rank(), 0);
  loss.backward();
  EXPECT_NEAR(loss.item(), c.value, 1e-5 * c.value);
  const std::vector<double> gradient = x.grad().to_doubles();
  double sum = 0, weighed = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    sum += std::fabs(gradient[i]);
    weighed += gradient[i] * static_cast<double>(i % 97) / 97;
  }
  EXPECT_NEAR(sum, c.gradients, 1e-5 * c.gradients);
  EXPECT_NEAR(weighed, c.weighed_gradients, 1e-5 * c.gradients);
}

TEST_P(AnchorBoxes, BoxesAreThoseOfTorchvision) {
  const auto each = static_cast<size_t>(GetParam().rows * (kOwn + coding_.others));
  for (size_t image = 0; image < 2; ++image) {
    const FoundCase& c = GetParam().found[image];
    const std::vector<FoundBox> found = find_boxes(rows(), std::span(outputs_).subspan(image * each, each));
    ASSERT_EQ(found.size(), c.boxes);
    int64_t labels = 0;
    double scores = 0, sides = 0;
    for (const FoundBox& one : found) {
      labels += one.label;
      scores += static_cast<double>(one.score);
      for (const float side : one.box) sides += static_cast<double>(side);
    }
    EXPECT_EQ(labels, c.labels);
    EXPECT_NEAR(scores, c.scores, 1e-4);
    EXPECT_NEAR(sides, c.sides, 2e-2);
    EXPECT_NEAR(found.front().box[2], c.first_side, 1e-4);
    EXPECT_NEAR(found.back().score, c.last_score, 1e-6);
  }
}

TEST_P(AnchorBoxes, RowsWithoutAnObjectInCrowdsAndImagesOfWeightZeroDoNotCount) {
  const int64_t count = GetParam().rows;
  const BoxObjects objects{
      {{{0, 0, 64, 48}, 0, true}, {{10, 10, 30, 34}, 1, false}, {{10, 10, 30, 34}, 1, false}}, {0, 2, 3}};
  const std::vector<float> weights = {1, 0};
  const BoxTarget target = box_target(rows(), objects, weights);
  const int64_t width = target.rows.size(1);
  for (int64_t i = 0; i < 2 * count; ++i) {
    const bool has_object = target.rows.data<float>()[i * width + 1] == 1;
    const float weight = target.weight.data<float>()[i];
    EXPECT_EQ(weight > 0, i < count && has_object) << i;
  }
  EXPECT_GT(box_weight(coding_, target.rows, target.weight).weight, 0);
  const std::vector<float> none = {0, 0};
  const BoxTarget empty = box_target(rows(), objects, none);
  EXPECT_EQ(box_weight(coding_, empty.rows, empty.weight).weight, 0);
}

TEST_P(AnchorBoxes, ImagesWithoutObjectsAndHugeOutputsHaveAFiniteLoss) {
  const std::vector<float> weights = {1, 1};
  const BoxTarget target = box_target(rows(), {{}, {0, 0, 0}}, weights);
  for (const float output : {0.0f, 60.0f}) {
    const Tensor x =
        Tensor::full({2, GetParam().rows, kOwn + coding_.others}, output).set_requires_grad(true);
    const Tensor loss = (*find_loss(record_.loss))->compute(x, target.rows, target.weight, {});
    loss.backward();
    EXPECT_TRUE(std::isfinite(loss.item()));
    for (const double value : x.grad().to_doubles()) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST_P(AnchorBoxes, NumbersThatAreNotFiniteGiveNoBox) {
  const auto each = static_cast<size_t>(GetParam().rows * (kOwn + coding_.others));
  const std::vector<float> outputs(each, std::nanf(""));
  EXPECT_TRUE(find_boxes(rows(), outputs).empty());
}

TEST_P(AnchorBoxes, ACodingComesBackFromItsJson) {
  const auto back = engine::box_coding_from(
      value_or_throw(formats::Json::parse(engine::box_coding_json(coding_).dump())), "state.json");
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, coding_);
  for (const char* key : {"name", "levels", "others", "weights", "score_thresh", "height"}) {
    formats::Json json = engine::box_coding_json(coding_);
    json.set(key, formats::Json());
    EXPECT_FALSE(engine::box_coding_from(json, "state.json").ok()) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(
    OfTorchvision, AnchorBoxes,
    testing::Values(AnchorsCase{"fcos",
                                60,
                                9.550554276,
                                4.726270199,
                                1.906427741,
                                {{{86, 84, 50.188137, 8627.3301, 30.6846733, 0.2430331},
                                  {79, 80, 50.880833, 7948.7949, 45.3702087, 0.2124408}}}},
                    AnchorsCase{"retinanet",
                                360,
                                121.981513977,
                                68.243843079,
                                32.363681793,
                                {{{300, 294, 279.532043, 30125.3223, 4.6563201, 0.8246399},
                                  {300, 316, 274.903320, 29764.6719, 36.7722816, 0.7716500}}}},
                    AnchorsCase{"retinanet_giou",
                                360,
                                120.800125122,
                                65.518692017,
                                32.559959412,
                                {{{300, 294, 279.532043, 30125.3223, 4.6563201, 0.8246399},
                                  {300, 316, 274.903320, 29764.6719, 36.7722816, 0.7716500}}}},
                    AnchorsCase{"ssd",
                                264,
                                27.783967972,
                                10.758409500,
                                -0.001978181,
                                {{{200, 202, 121.425056, 22375.4512, 45.7102432, 0.1922619},
                                  {200, 185, 129.902954, 22355.5352, 60.6751594, 0.2476173}}}}),
    [](const auto& info) { return std::string(info.param.name); });

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
  const TaskState state{.name = "detect", .fields = {"boxes", "box_labels"}, .boxes = kGrid};
  std::vector<const engine::MetricRecord*> metrics;
  for (const std::string& name : task.metrics()) metrics.push_back(value_or_throw(engine::find_metric(name)));
  // A box of class 1 in each of four images of one cell, found in three; the last sample does not count.
  std::vector<float> outputs;
  BatchInput input;
  input.pixels = Tensor::zeros({4, 8, 8, 3});
  input.target = Tensor::zeros({4, 6});
  input.weight = Tensor::full({4}, 1, DType::kF32);
  input.sample_weight = {1, 1, 1, 0};
  input.boxes = kGrid;
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
