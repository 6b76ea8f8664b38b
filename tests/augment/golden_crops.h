// Crops that keep boxes beside the libraries': golden/box_crops.golden holds which ones they take, given the numbers that
// dlpipe draws. golden/make_box_crops_golden.py wrote it.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "augment/moving.h"
#include "tests/augment/chain_testing.h"
#include "tests/base/test_file.h"

namespace dlpipe::augment {

struct GoldenCrop {
  std::string expression;
  SampleKey key;
  int width = 0;
  int height = 0;
  std::vector<float> boxes;
  std::vector<int> crop;  // x, y, width, height; empty: the image stays as it is
  std::vector<uint8_t> kept;
};

template <class T>
std::vector<T> numbers_of_line(std::istream& file) {
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  std::vector<T> numbers;
  for (T number{}; words >> number;) numbers.push_back(number);
  return numbers;
}

/// Calls body(golden) for every case whose expression begins with `op`.
template <class Body>
void for_golden_crops(const std::string& op, const Body& body) {
  std::ifstream file(test_file("augment/golden/box_crops.golden"));
  int cases = 0;
  GoldenCrop golden;
  while (std::getline(file, golden.expression)) {
    const std::vector<uint64_t> numbers = numbers_of_line<uint64_t>(file);
    ASSERT_EQ(numbers.size(), 4u);
    golden.key = {.seed = numbers[0], .position = static_cast<int64_t>(numbers[1])};
    golden.width = static_cast<int>(numbers[2]);
    golden.height = static_cast<int>(numbers[3]);
    golden.boxes = numbers_of_line<float>(file);
    golden.crop = numbers_of_line<int>(file);
    golden.kept.clear();
    for (const int kept : numbers_of_line<int>(file)) golden.kept.push_back(static_cast<uint8_t>(kept));
    if (!golden.expression.starts_with(op)) continue;
    ++cases;
    SCOPED_TRACE(golden.expression + " " + std::to_string(golden.key.position));
    body(golden);
  }
  EXPECT_GE(cases, 60);
}

inline ChainPlan plan_with_boxes(const Chain& chain, int width, int height, std::span<const float> boxes,
                                 const SampleKey& key) {
  const PlannedImage image = {{width, height, 3}, key.sample, boxes};
  ChainPlan plan;
  const Status status = chain.plan({&image, 1}, key, plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}

inline std::vector<uint8_t> kept_of(const ChainPlan& plan, std::vector<float> boxes) {
  std::vector<uint8_t> kept;
  Moving(plan).boxes(boxes, kept);
  return kept;
}

}  // namespace dlpipe::augment
