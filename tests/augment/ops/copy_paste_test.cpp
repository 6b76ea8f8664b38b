// copy_paste beside the plain way: both images made whole, and every pixel looked at.
#include <array>

#include "augment/moving.h"
#include "tests/augment/joined_testing.h"

namespace dlpipe::augment {
namespace {

/// An image of noise with objects: boxes, their classes and a mask, in which an object fills the disc in its box.
struct Scene {
  OwnedImage image{0, 0};
  OwnedImage mask{0, 0, 1};
  std::vector<float> boxes;
  std::vector<int64_t> labels;

  Scene(int width, int height, uint64_t seed, int objects)
      : image(noise_image(width, height, 3, seed)), mask(width, height, 1) {
    RandomStream rng(seed, 9);
    for (int i = 0; i < objects; ++i) {
      const auto side = [&](int whole) { return static_cast<int>(rng.below(static_cast<uint32_t>(whole))); };
      const int left = side(width - 12), top = side(height - 12);
      const int right = std::min(width, left + 8 + side(25)), bottom = std::min(height, top + 8 + side(25));
      boxes.insert(boxes.end(), {float(left), float(top), float(right), float(bottom)});
      labels.push_back(static_cast<int64_t>(rng.below(4)));
      for (int y = top; y < bottom; ++y) {
        for (int x = left; x < right; ++x) {
          const double a = (2.0 * x + 1 - left - right) / (right - left);
          const double b = (2.0 * y + 1 - top - bottom) / (bottom - top);
          if (a * a + b * b < 1) mask.pixels[size_t(y * width + x)] = static_cast<uint8_t>(labels.back() + 1);
        }
      }
    }
    mask.pixels[0] = 255;
  }
  PlannedImage planned(int64_t sample) const {
    return {{image.width, image.height, 3}, sample, boxes, labels, std::as_const(mask).view()};
  }
};

ChainPlan plan_two(const Chain& chain, const Scene& own, const Scene& other, const SampleKey& key) {
  const std::array<PlannedImage, 2> planned = {own.planned(0), other.planned(7)};
  EXPECT_EQ(chain.others(key), 1);
  ChainPlan plan;
  throw_if_error(chain.plan(planned, key, plan));
  EXPECT_TRUE(plan.pastes);
  return plan;
}

OwnedImage run_two(const Chain& chain, const Scene& own, const Scene& other, const ChainPlan& plan,
                   int64_t* read = nullptr) {
  const std::vector<OwnedImage> images = {own.image, other.image};
  OwnedImage out(plan.out.width, plan.out.height, 3);
  Images source(images);
  ChainScratch scratch;
  throw_if_error(chain.apply_joined(plan, source, out.view(), scratch));
  if (read != nullptr) *read = source.read();
  return out;
}

/// What an expression of fixed ops makes of a scene; boxes that it drops are empty.
Scene moved(const Scene& scene, const std::string& expression) {
  Scene result = scene;
  const Chain chain = parse_or_die(expression);
  const ChainPlan plan = plan_or_die(chain, {scene.image.width, scene.image.height, 3}, {});
  result.image = run_chain(chain, scene.image, {});
  result.mask = OwnedImage(plan.out.width, plan.out.height, 1);
  const Moving moving(plan);
  moving.mask(scene.mask.view(), result.mask.view(), 0);
  std::vector<uint8_t> kept;
  moving.boxes(result.boxes, kept);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == 0) std::fill_n(result.boxes.begin() + static_cast<ptrdiff_t>(4 * i), 4, 0.0F);
  }
  return result;
}

bool is_of(const Scene& scene, size_t i, int x, int y) {
  if (x >= scene.mask.width || y >= scene.mask.height) return false;
  const float* const box = &scene.boxes[4 * i];
  return float(x + 1) > box[0] && float(y + 1) > box[1] && float(x) < box[2] && float(y) < box[3] &&
         scene.mask.at(x, y) == scene.labels[i] + 1;
}

/// The pasted pixels, and where each comes from, by the definition.
struct Plain {
  OwnedImage image{0, 0};
  OwnedImage mask{0, 0, 1};
  OwnedImage pasted{0, 0, 1};

  Plain(const Scene& own, const Scene& other, const std::vector<bool>& chosen)
      : image(own.image), mask(own.mask), pasted(own.mask.width, own.mask.height, 1) {
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        bool is_pasted = false;
        for (size_t i = 0; i < chosen.size(); ++i)
          is_pasted = is_pasted || (chosen[i] && is_of(other, i, x, y));
        if (!is_pasted) continue;
        const size_t at = size_t(y * image.width + x);
        pasted.pixels[at] = 1;
        mask.pixels[at] = static_cast<uint8_t>(other.mask.at(x, y));
        for (int c = 0; c < 3; ++c)
          image.pixels[3 * at + size_t(c)] = static_cast<uint8_t>(other.image.at(x, y, c));
      }
    }
  }
};

std::vector<bool> chosen_of(const ChainPlan& plan) {
  std::vector<bool> chosen;
  for (const auto& box : plan.images[1].boxes) chosen.push_back(box.has_value());
  return chosen;
}

OwnedImage mask_of(const ChainPlan& plan, const Scene& own, const Scene& other) {
  OwnedImage mask(plan.out.width, plan.out.height, 1);
  Moving(plan, 0).paint_mask(own.mask.view(), mask.view());
  Moving(plan, 1).paint_mask(other.mask.view(), mask.view());
  return mask;
}

TEST(CopyPaste, PixelsAndMasksAreThoseOfThePlainWay) {
  const Chain chain = parse_or_die("copy_paste(0.6)");
  int pasted = 0, left_out = 0;
  for (int64_t position = 0; position < 40; ++position) {
    const Scene own(60, 50, uint64_t(2 * position + 1), 3);
    const Scene other(45 + int(position), 30 + int(position), uint64_t(2 * position + 2), 4);
    const ChainPlan plan = plan_two(chain, own, other, {.seed = 5, .position = position});
    const std::vector<bool> chosen = chosen_of(plan);
    for (const bool is_chosen : chosen) ++(is_chosen ? pasted : left_out);
    const Plain plain(own, other, chosen);
    EXPECT_EQ(run_two(chain, own, other, plan), plain.image) << position;
    EXPECT_EQ(mask_of(plan, own, other), plain.mask) << position;
  }
  EXPECT_GT(pasted, 50);
  EXPECT_GT(left_out, 30);
}

/// Each side of an object below moves as the pixels that are seen of it do; too little, and it goes.
TEST(CopyPaste, ObjectsBelowAreTrimmedOrDropped) {
  const Chain chain = parse_or_die("copy_paste(1,seen=0.4)");
  int trimmed = 0, dropped = 0;
  for (int64_t position = 0; position < 60; ++position) {
    const Scene own(60, 50, uint64_t(2 * position + 1), 4), other(60, 50, uint64_t(2 * position + 2), 5);
    const ChainPlan plan = plan_two(chain, own, other, {.seed = 5, .position = position});
    const Plain plain(own, other, chosen_of(plan));
    std::vector<float> rows = own.boxes;
    std::vector<uint8_t> kept;
    Moving(plan, 0).boxes(rows, kept);
    for (size_t i = 0; i < kept.size(); ++i) {
      std::array<int, 4> all = {99, 99, 0, 0}, seen = all;
      int count = 0, count_seen = 0;
      for (int y = 0; y < 50; ++y) {
        for (int x = 0; x < 60; ++x) {
          if (!is_of(own, i, x, y)) continue;
          const auto add = [&](std::array<int, 4>& to, int& number) {
            to = {std::min(to[0], x), std::min(to[1], y), std::max(to[2], x + 1), std::max(to[3], y + 1)};
            ++number;
          };
          add(all, count);
          if (plain.pasted.at(x, y) == 0) add(seen, count_seen);
        }
      }
      if (count == 0) continue;  // covered by another of its own image: goes by its area
      ASSERT_EQ(kept[i] != 0, count_seen > 0 && count_seen >= 0.4 * count) << position << " " << i;
      dropped += kept[i] == 0 ? 1 : 0;
      if (kept[i] == 0) continue;
      for (size_t side = 0; side < 4; ++side) {
        const float expected = seen[side] == all[side] ? own.boxes[4 * i + side] : float(seen[side]);
        EXPECT_EQ(rows[4 * i + side], expected) << position << " " << i << " side " << side;
        trimmed += seen[side] == all[side] ? 0 : 1;
      }
    }
    rows = other.boxes;
    Moving(plan, 1).boxes(rows, kept);
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(kept[i] != 0, chosen_of(plan)[i]);
      for (size_t side = 0; side < 4 && kept[i] != 0; ++side)
        EXPECT_EQ(rows[4 * i + side], other.boxes[4 * i + side]);
    }
  }
  EXPECT_GT(trimmed, 20);
  EXPECT_GT(dropped, 10);
}

TEST(CopyPaste, OpsBeforeAndBehindAreRunAsIfByHand) {
  const std::string before = "hflip(1) resize(48x56)", behind = "vflip(1) center_crop(31)";
  const Chain chain = parse_or_die(before + " copy_paste(1) " + behind);
  int64_t read = 0, whole = 0;
  for (int64_t position = 0; position < 30; ++position) {
    const Scene own(60, 50, uint64_t(2 * position + 1), 3), other(80, 64, uint64_t(2 * position + 2), 2);
    const ChainPlan plan = plan_two(chain, own, other, {.seed = 5, .position = position});
    const Scene first = moved(own, before), second = moved(other, before);
    const Plain plain(first, second, chosen_of(plan));
    int64_t one = 0;
    EXPECT_EQ(run_two(chain, own, other, plan, &one), run_chain(behind, plain.image, {})) << position;
    Scene pasted = first;
    pasted.mask = plain.mask;
    EXPECT_EQ(mask_of(plan, own, other), moved(pasted, behind).mask) << position;
    read += one;
    whole += 60 * 50 + 80 * 64;
  }
  EXPECT_LT(read, whole * 3 / 4) << "of the other image only what is pasted is decoded";
}

TEST(CopyPaste, PointsAreSeenWhereTheirImageIs) {
  const Scene own(60, 50, 1, 3), other(60, 50, 2, 4);
  const Chain chain = parse_or_die("copy_paste(1)");
  const ChainPlan plan = plan_two(chain, own, other, {.seed = 5});
  const Plain plain(own, other, chosen_of(plan));
  int seen = 0;
  for (size_t k = 0; k < 2; ++k) {
    for (int y = 0; y < 50; ++y) {
      for (int x = 0; x < 60; ++x) {
        std::vector<float> point = {float(x) + 0.5F, float(y) + 0.5F, 1};
        Moving(plan, k).points(point);
        EXPECT_EQ(point[2] != 0, (plain.pasted.at(x, y) != 0) == (k == 1)) << x << " " << y;
        EXPECT_EQ(point[0], float(x) + 0.5F);
        seen += point[2] != 0 ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(seen, 60 * 50);
}

TEST(CopyPaste, WithoutAMaskNothingIsPasted) {
  const Scene own(60, 50, 1, 3), other(60, 50, 2, 4);
  std::array<PlannedImage, 2> planned = {own.planned(0), other.planned(7)};
  planned[1].mask = {};
  const Chain chain = parse_or_die("copy_paste(1)");
  ChainPlan plan;
  throw_if_error(chain.plan(planned, {}, plan));
  EXPECT_EQ(run_two(chain, own, other, plan), own.image);
  std::vector<float> rows = own.boxes;
  std::vector<uint8_t> kept;
  Moving(plan, 0).boxes(rows, kept);
  EXPECT_EQ(rows, own.boxes);
  EXPECT_EQ(kept, std::vector<uint8_t>(3, 1));
}

/// By boxes alone: an object below without pixels in its mask loses the share of its area.
TEST(CopyPaste, BelowObjectsWithoutOutlineGoByTheirArea) {
  Scene own(60, 50, 1, 0), other(60, 50, 2, 0);
  own.boxes = {10, 10, 30, 30, 10, 10, 12, 12};
  own.labels = {0, 0};
  other.boxes = {10, 10, 20, 30};
  other.labels = {2};
  for (int y = 10; y < 30; ++y) std::fill_n(&other.mask.pixels[size_t(y * 60 + 10)], 10, uint8_t{3});
  const auto kept = [&](const std::string& expression) {
    const Chain chain = parse_or_die(expression);
    const ChainPlan plan = plan_two(chain, own, other, {.seed = 5});
    std::vector<float> rows = own.boxes;
    std::vector<uint8_t> kept;
    Moving(plan, 0).boxes(rows, kept);
    return kept;
  };
  EXPECT_EQ(kept("copy_paste(1,seen=0.5)"), (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(kept("copy_paste(1,seen=0.51)"), (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(kept("copy_paste(1,seen=0.5) drop_boxes(0.6)"), (std::vector<uint8_t>{0, 0}));
}

}  // namespace
}  // namespace dlpipe::augment
