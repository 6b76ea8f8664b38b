#include "run/ingest/draw.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace dlpipe::ingest {

namespace {

/// Names and classes of samples, `per_class` of each.
struct Samples {
  Samples(int64_t classes_, int per_class) {
    for (int64_t c = 0; c < classes_; ++c) {
      for (int i = 0; i < per_class; ++i) {
        texts.push_back(std::to_string(c) + "/" + std::to_string(100 + i));
        classes.push_back(c);
      }
    }
    names.assign(texts.begin(), texts.end());
  }
  SampleDraw draw() const { return {.names = names, .classes = classes, .split = {}}; }

  std::vector<std::string> texts;
  std::vector<std::string_view> names;
  std::vector<int64_t> classes;
};

std::map<std::string_view, std::optional<size_t>> by_name(const SampleDraw& draw) {
  const auto drawn = value_or_throw(draw_samples(draw));
  std::map<std::string_view, std::optional<size_t>> found;
  for (size_t i = 0; i < drawn.size(); ++i) found[draw.names[i]] = drawn[i];
  return found;
}

}  // namespace

TEST(DrawSamples, CutsEachClassAtTheSameFractions) {
  const Samples samples(3, 20);
  SampleDraw draw = samples.draw();
  draw.split = {0.7, 0.2, 0.1};
  const auto drawn = value_or_throw(draw_samples(draw));
  std::map<std::pair<int64_t, size_t>, int> counts;
  for (size_t i = 0; i < drawn.size(); ++i) ++counts[{samples.classes[i], drawn[i].value()}];
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_EQ((counts[{c, 0}]), 14);
    EXPECT_EQ((counts[{c, 1}]), 4);
    EXPECT_EQ((counts[{c, 2}]), 2);
  }
  const auto before = by_name(draw);
  draw.seed = 1;
  EXPECT_NE(by_name(draw), before);
}

TEST(DrawSamples, ASampleThatIsTakenStaysSoWhenOthersGo) {
  const Samples samples(2, 50), fewer(1, 50);
  SampleDraw draw = samples.draw(), of_fewer = fewer.draw();
  draw.limit = of_fewer.limit = 30;
  const auto all = by_name(draw), some = by_name(of_fewer);
  int taken = 0;
  for (const auto& [name, drawn] : all) {
    taken += drawn.has_value() ? 1 : 0;
    if (name.front() == '0' && drawn) {
      EXPECT_TRUE(some.at(name).has_value()) << name;
    }
  }
  EXPECT_EQ(taken, 30);
  draw.limit = 100;
  for (const auto& [name, drawn] : by_name(draw)) EXPECT_TRUE(drawn.has_value()) << name;
}

TEST(DrawSamples, WhatIsASequenceIsCutInItsOrder) {
  const Samples samples(1, 10);
  SampleDraw draw = samples.draw();
  draw.split = {0.8, 0.2};
  draw.in_sequence = true;
  const auto drawn = value_or_throw(draw_samples(draw));
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(drawn[i], i < 8 ? 0u : 1u) << i;
}

TEST(DrawSamples, AGroupStaysTogetherAndClassesAreDividedAsBefore) {
  const Samples samples(3, 60);
  std::vector<int64_t> groups;
  for (size_t i = 0; i < samples.names.size(); ++i)
    groups.push_back(i % 10 == 9 ? -1 : static_cast<int64_t>(i / 5));  // of 5, or 4 and one alone
  SampleDraw draw = samples.draw();
  draw.split = {0.8, 0.1, 0.1};
  draw.groups = groups;
  const auto drawn = value_or_throw(draw_samples(draw));
  std::map<int64_t, size_t> split_of;
  std::map<std::pair<int64_t, size_t>, int> counts;
  for (size_t i = 0; i < drawn.size(); ++i) {
    ++counts[{samples.classes[i], drawn[i].value()}];
    if (groups[i] < 0) continue;
    EXPECT_EQ(split_of.emplace(groups[i], drawn[i].value()).first->second, drawn[i].value()) << i;
  }
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_NEAR((counts[{c, 0}]), 48, 3);
    EXPECT_NEAR((counts[{c, 1}]), 6, 3);
    EXPECT_NEAR((counts[{c, 2}]), 6, 3);
  }
  // Groups of one sample are no groups.
  std::iota(groups.begin(), groups.end(), int64_t{0});
  const auto alone = by_name(draw);
  draw.groups = {};
  EXPECT_EQ(by_name(draw), alone);
}

namespace {

/// The samples of each split, if groups are runs of `sizes[g]` samples of the class `classes[g]`.
std::vector<size_t> split_sizes(const std::vector<size_t>& sizes, const std::vector<int64_t>& classes,
                                const std::vector<double>& split) {
  std::vector<std::string> texts;
  std::vector<int64_t> own, groups;
  for (size_t g = 0; g < sizes.size(); ++g) {
    for (size_t i = 0; i < sizes[g]; ++i) {
      texts.push_back(std::to_string(1000 + g) + "/" + std::to_string(i));
      own.push_back(classes[g]);
      groups.push_back(static_cast<int64_t>(g));
    }
  }
  const std::vector<std::string_view> names(texts.begin(), texts.end());
  SampleDraw draw{.names = names, .classes = own, .split = split};
  draw.groups = groups;
  const auto drawn = value_or_throw(draw_samples(draw));
  std::vector<size_t> counts(split.size());
  std::map<int64_t, size_t> split_of;
  for (size_t i = 0; i < drawn.size(); ++i) {
    ++counts[drawn[i].value()];
    EXPECT_EQ(split_of.emplace(groups[i], *drawn[i]).first->second, *drawn[i]) << "groups stay together";
  }
  return counts;
}

}  // namespace

TEST(DrawSamples, FewGroupsOfEachClassAreDividedTogether) {
  std::vector<int64_t> classes;
  for (int64_t g = 0; g < 12; ++g) classes.push_back(g % 3);
  EXPECT_EQ(split_sizes(std::vector<size_t>(12, 4), classes, {0.9, 0.1}), (std::vector<size_t>{44, 4}));
  // As many groups as splits are enough, in any sizes; the shares are as near as they can be.
  EXPECT_EQ(split_sizes({4, 4, 4}, {0, 1, 2}, {0.8, 0.1, 0.1}), (std::vector<size_t>{4, 4, 4}));
  EXPECT_EQ(split_sizes({90, 5, 5}, {0, 0, 0}, {0.9, 0.1}), (std::vector<size_t>{90, 10}));
  EXPECT_EQ(split_sizes({2, 30}, {0, 1}, {0.9, 0.1}), (std::vector<size_t>{30, 2}));
  // Of 100 classes of 4 groups, val has a tenth, each of another class.
  classes.clear();
  for (int64_t g = 0; g < 400; ++g) classes.push_back(g % 100);
  EXPECT_EQ(split_sizes(std::vector<size_t>(400, 1), classes, {0.9, 0.1}), (std::vector<size_t>{360, 40}));
  EXPECT_THROW(
      {
        try {
          split_sizes({4, 4}, {0, 1}, {0.8, 0.1, 0.1});
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("there are 2 for 3 splits; add some, give --folds 2"),
                    std::string::npos)
              << error.what();
          throw;
        }
      },
      Error);
}

TEST(DrawFolds, ClassesAndAllAreDividedEvenly) {
  for (const int per_class : {1, 3, 7, 20}) {  // fewer of a class than folds, too
    const Samples samples(11, per_class);
    const auto folds = value_or_throw(draw_folds(samples.draw(), 5));
    std::map<size_t, int> sizes;
    std::map<std::pair<int64_t, size_t>, int> of_class;
    for (size_t i = 0; i < folds.size(); ++i) {
      ++sizes[folds[i]];
      ++of_class[{samples.classes[i], folds[i]}];
    }
    ASSERT_EQ(sizes.size(), 5u);
    for (const auto& [fold, size] : sizes) EXPECT_NEAR(size, 11 * per_class / 5.0, 1) << fold;
    for (const auto& [place, count] : of_class) EXPECT_NEAR(count, per_class / 5.0, 1);
  }
}

TEST(DrawFolds, AGroupIsInOneFold) {
  const Samples samples(2, 40);
  std::vector<int64_t> groups;
  for (size_t i = 0; i < samples.names.size(); ++i) groups.push_back(static_cast<int64_t>(i * i % 17));
  SampleDraw draw = samples.draw();
  draw.groups = groups;
  const auto folds = value_or_throw(draw_folds(draw, 3));
  std::map<int64_t, size_t> fold_of;
  std::map<size_t, int> sizes;
  for (size_t i = 0; i < folds.size(); ++i) {
    EXPECT_EQ(fold_of.emplace(groups[i], folds[i]).first->second, folds[i]) << i;
    ++sizes[folds[i]];
  }
  for (const auto& [fold, size] : sizes) EXPECT_NEAR(size, 80 / 3.0, 6) << fold;
  EXPECT_FALSE(draw_folds(draw, 30).ok());
}

static std::string refusal(int64_t classes, int per_class, const std::vector<double>& split) {
  const Samples samples(classes, per_class);
  SampleDraw draw = samples.draw();
  draw.split = split;
  return draw_samples(draw).status().message();
}

// What the message says holds: the parts that it names do, and so do classes as large as it says.
TEST(DrawSamples, ARefusedSplitSaysWhatWouldDo) {
  EXPECT_EQ(refusal(10, 4, {0.9, 0.1}),
            "[ingest] too few samples for --split: each class is divided separately, and 'val' would get "
            "none of the 4 in the largest class (it would get one of 6); give --split 0.75,0.25, add some, "
            "or leave out --split");
  EXPECT_EQ(refusal(10, 4, {0.75, 0.25}), "");
  EXPECT_EQ(refusal(10, 6, {0.9, 0.1}), "");
  EXPECT_EQ(refusal(10, 1, {0.9, 0.1}),
            "[ingest] too few samples for --split: each class is divided separately, and 'val' would get "
            "none of the 1 in the largest class (it would get one of 6); add some or leave out --split");
  // Sums of fractions are rounded: a part in the middle gets one of 5 samples, and none of 6.
  const std::string middle = refusal(10, 6, {0.8, 0.1, 0.1});
  EXPECT_NE(middle.find("(it would get one of 8); give --split 0.67,0.17,0.16,"), std::string::npos)
      << middle;
  EXPECT_EQ(refusal(10, 6, {0.67, 0.17, 0.16}), "");
  EXPECT_EQ(refusal(10, 8, {0.8, 0.1, 0.1}), "");
  EXPECT_EQ(refusal(10, 2, {0.999999, 0.000001}).find("it would get one"), std::string::npos);
  EXPECT_EQ(refusal(1, 2, {0.9, 0.1}),
            "[ingest] too few samples for --split: 'val' would get none; add some or leave out --split");
}

TEST(DrawSamples, ASplitWithoutASampleIsRefused) {
  const Samples samples(2, 2);
  SampleDraw draw = samples.draw();
  draw.split = {0.9, 0.1};
  const Status status = draw_samples(draw).status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_EQ(status.message(),
            "[ingest] too few samples for --split: each class is divided separately, and 'val' would get "
            "none of the 2 in the largest class (it would get one of 6); give --split 0.5,0.5, add some, or "
            "leave out --split");
  EXPECT_FALSE(check_limit(0).ok());
  EXPECT_FALSE(check_limit(-2).ok());
  EXPECT_TRUE(check_limit(-1).ok());
}

}  // namespace dlpipe::ingest
