// mosaic beside the plain way: every picture made whole, and laid into the canvas by the four cases that YOLO's code spells out.
#include <array>

#include "dlpipe/augment/moving.h"
#include "tests/augment/joined_testing.h"

namespace dlpipe::augment {
namespace {

/// Pictures of other sizes, and of noise, so that a shift by one shows.
std::vector<OwnedImage> four_pictures(int channels = 3) {
  return {noise_image(50, 40, channels, 1), noise_image(30, 70, channels, 2),
          noise_image(64, 64, channels, 3), noise_image(21, 90, channels, 4)};
}

ChainPlan plan_four(const Chain& chain, const std::vector<OwnedImage>& pictures, const SampleKey& key) {
  std::vector<PlannedPicture> planned;
  for (size_t k = 0; k < pictures.size(); ++k)
    planned.push_back(
        {{pictures[k].width, pictures[k].height, pictures[k].channels}, static_cast<int64_t>(10 * k)});
  ChainPlan plan;
  const Status status = chain.plan(planned, key, plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}

OwnedImage run_four(const Chain& chain, const std::vector<OwnedImage>& pictures, const SampleKey& key,
                    int64_t* read = nullptr) {
  const ChainPlan plan = plan_four(chain, pictures, key);
  OwnedImage out(plan.out.width, plan.out.height, plan.out.channels);
  Pictures source(pictures);
  ChainScratch scratch;
  const Status status = chain.apply_joined(plan, source, out.view(), scratch);
  EXPECT_TRUE(status.ok()) << status.message();
  if (read != nullptr) *read = source.read();
  return out;
}

/// Ultralytics' Mosaic with n = 4, in its own terms: s, xc, yc, and the corners a of the canvas and b of the picture.
OwnedImage plain_mosaic(const std::vector<OwnedImage>& pictures, int s, int xc, int yc, uint8_t fill) {
  OwnedImage canvas(2 * s, 2 * s, pictures[0].channels);
  std::fill(canvas.pixels.begin(), canvas.pixels.end(), fill);
  for (int i = 0; i < 4; ++i) {
    const OwnedImage& picture = pictures[static_cast<size_t>(i)];
    const int w = picture.width, h = picture.height;
    int x1a = 0, y1a = 0, x2a = 0, y2a = 0, x1b = 0, y1b = 0;
    if (i == 0) {  // top left
      x1a = std::max(xc - w, 0), y1a = std::max(yc - h, 0), x2a = xc, y2a = yc;
      x1b = w - (x2a - x1a), y1b = h - (y2a - y1a);
    } else if (i == 1) {  // top right
      x1a = xc, y1a = std::max(yc - h, 0), x2a = std::min(xc + w, s * 2), y2a = yc;
      x1b = 0, y1b = h - (y2a - y1a);
    } else if (i == 2) {  // bottom left
      x1a = std::max(xc - w, 0), y1a = yc, x2a = xc, y2a = std::min(s * 2, yc + h);
      x1b = w - (x2a - x1a), y1b = 0;
    } else {  // bottom right
      x1a = xc, y1a = yc, x2a = std::min(xc + w, s * 2), y2a = std::min(s * 2, yc + h);
      x1b = 0, y1b = 0;
    }
    for (int y = y1a; y < y2a; ++y) {
      for (int x = x1a; x < x2a; ++x) {
        for (int c = 0; c < canvas.channels; ++c) {
          canvas.pixels[(size_t(y) * size_t(2 * s) + size_t(x)) * size_t(canvas.channels) + size_t(c)] =
              picture.at(x1b + x - x1a, y1b + y - y1a, c);
        }
      }
    }
  }
  return canvas;
}

TEST(Mosaic, IsYolosForDrawnCenters) {
  const Chain chain = parse_or_die("mosaic(40)");
  for (const int channels : {1, 3}) {
    const std::vector<OwnedImage> pictures = four_pictures(channels);
    for (int64_t position = 0; position < 60; ++position) {
      const SampleKey key{.seed = 5, .position = position};
      ASSERT_EQ(chain.others(key), 3);
      const ChainPlan plan = plan_four(chain, pictures, key);
      const int x = static_cast<int>(plan.draws[0].values[0]), y = static_cast<int>(plan.draws[0].values[1]);
      EXPECT_GE(x, 20);
      EXPECT_LT(x, 60);
      EXPECT_GE(y, 20);
      EXPECT_LT(y, 60);
      EXPECT_EQ(run_four(chain, pictures, key), plain_mosaic(pictures, 40, x, y, 114)) << position;
    }
  }
}

TEST(Mosaic, TakesAnyCenterAndColor) {
  const std::vector<OwnedImage> pictures = four_pictures();
  EXPECT_EQ(run_four(parse_or_die("mosaic(40,center=0,fill=7)"), pictures, {}),
            plain_mosaic(pictures, 40, 0, 0, 7));
  EXPECT_EQ(run_four(parse_or_die("mosaic(40,center=1,fill=7)"), pictures, {}),
            plain_mosaic(pictures, 40, 80, 80, 7));
  const OwnedImage colored = run_four(parse_or_die("mosaic(100,fill=1:2:3)"), pictures, {});
  EXPECT_EQ(colored.at(0, 0, 0), 1);
  EXPECT_EQ(colored.at(0, 0, 1), 2);
  EXPECT_EQ(colored.at(0, 0, 2), 3);
}

/// What stands before is run for each picture by itself, what stands behind once; every op by itself, and all of the picture.
TEST(Mosaic, OpsBeforeAndBehindAreRunAsIfByHand) {
  const std::vector<OwnedImage> pictures = four_pictures();
  const Chain chain = parse_or_die(
      "resize(48,side=longer) hflip brightness(0.4) mosaic(40) rotate(20) center_crop(40) hflip");
  for (int64_t position = 0; position < 40; ++position) {
    const SampleKey key{.seed = 9, .position = position};
    const ChainPlan plan = plan_four(chain, pictures, key);
    std::vector<OwnedImage> made;
    for (size_t k = 0; k < 4; ++k) {
      // The draws of each picture, op by op.
      const ChainPlan& one = plan.pictures[k].plan;
      OwnedImage image = pictures[k];
      for (size_t d = 0; d < one.draws.size(); ++d) {
        if (!one.draws[d].active) continue;
        if (Chain::op_of(one, d).second->is_mirror) {
          image = image.mirrored();
          continue;
        }
        OpDraw draw = one.draws[d];
        draw.region = {0, 0, image.width, image.height};
        draw.window = {0, 0, draw.out.width, draw.out.height};
        draw.mirror = false;
        if (draw.crop_only) continue;
        OwnedImage out(draw.out.width, draw.out.height);
        ChainScratch scratch;
        throw_if_error(Chain::op_of(one, d).first->apply(draw, image.view(), out.view(), scratch));
        image = out;
      }
      made.push_back(image);
    }
    const OwnedImage whole = plain_mosaic(made, 40, static_cast<int>(plan.draws[0].values[0]),
                                          static_cast<int>(plan.draws[0].values[1]), 114);
    // The ops behind keep their places in the chain, and so their draws.
    const Chain behind = parse_or_die("hflip(0) hflip(0) hflip(0) hflip(0) rotate(20) center_crop(40) hflip");
    EXPECT_EQ(run_four(chain, pictures, key), run_chain(behind, whole, key)) << position;
  }
}

TEST(Mosaic, OnlyWhatIsSeenIsDecoded) {
  const std::vector<OwnedImage> pictures(4, noise_image(200, 200));
  int64_t all = 0, cropped = 0;
  run_four(parse_or_die("mosaic(100,center=0.5)"), pictures, {}, &all);
  EXPECT_EQ(all, 200 * 200);
  const OwnedImage out =
      run_four(parse_or_die("mosaic(100,center=0.5) center_crop(20)"), pictures, {}, &cropped);
  EXPECT_EQ(cropped, 20 * 20);
  EXPECT_EQ(out, plain_mosaic(pictures, 100, 100, 100, 0).part({90, 90, 20, 20}));
  // A picture of which nothing is seen isn't asked for.
  run_four(parse_or_die("mosaic(100,center=1) center_crop(20)"), pictures, {}, &cropped);
  EXPECT_EQ(cropped, 20 * 20);
}

TEST(Mosaic, PicturesHaveDrawsOfTheirOwn) {
  const std::vector<OwnedImage> pictures(4, noise_image(40, 40));
  const Chain chain = parse_or_die("brightness(0.5) mosaic(40)");
  const ChainPlan plan = plan_four(chain, pictures, {.seed = 1});
  for (size_t k = 1; k < 4; ++k)
    EXPECT_NE(plan.pictures[k].plan.draws[0].values[0], plan.pictures[0].plan.draws[0].values[0]);
  // The hash names the others.
  std::vector<PlannedPicture> planned;
  for (int64_t k = 0; k < 4; ++k) planned.push_back({{40, 40, 3}, 10 * k + (k == 3 ? 1 : 0)});
  ChainPlan other;
  throw_if_error(chain.plan(planned, {.seed = 1}, other));
  EXPECT_NE(other.hash, plan.hash);
}

TEST(Mosaic, BoxesAndPointsGoWhereThePixelsGo) {
  const std::vector<OwnedImage> pictures = four_pictures();
  const Chain chain = parse_or_die("mosaic(40)");
  for (int64_t position = 0; position < 40; ++position) {
    const ChainPlan plan = plan_four(chain, pictures, {.seed = 2, .position = position});
    for (size_t k = 0; k < 4; ++k) {
      const JoinedPicture& at = plan.pictures[k];
      const Moving moving(plan, k);
      std::vector<float> box = {5, 6, 15, 26};
      std::vector<uint8_t> kept;
      moving.boxes(box, kept);
      const float left = std::max(5, at.from.x), top = std::max(6, at.from.y);
      const float right = std::min(15, at.from.x + at.from.width),
                  bottom = std::min(26, at.from.y + at.from.height);
      ASSERT_EQ(kept[0], left < right && top < bottom ? 1 : 0) << position << " " << k;
      const float dx = at.x - at.from.x, dy = at.y - at.from.y;
      if (kept[0] == 1) {
        EXPECT_EQ(box, (std::vector<float>{left + dx, top + dy, right + dx, bottom + dy}));
      }
      std::vector<float> point = {7.5f, 8.5f, 1};
      moving.points(point);
      const bool is_seen = at.from.x <= 7 && at.from.y <= 8 && at.from.width > 0 && at.from.height > 0 &&
                           at.from.x + at.from.width >= 8 && at.from.y + at.from.height >= 9;
      EXPECT_EQ(point, (std::vector<float>{7.5f + dx, 8.5f + dy, is_seen ? 1.0f : 0.0f}))
          << position << " " << k;
    }
  }
}

TEST(Mosaic, MasksAreTheMosaicOfMasks) {
  const std::vector<OwnedImage> masks = four_pictures(1);
  const Chain chain = parse_or_die("mosaic(40)");
  const ChainPlan plan = plan_four(chain, masks, {.seed = 3});
  OwnedImage out(80, 80, 1);
  std::fill(out.pixels.begin(), out.pixels.end(), uint8_t{255});
  for (size_t k = 0; k < 4; ++k) Moving(plan, k).paint_mask(masks[k].view(), out.view());
  EXPECT_EQ(out, plain_mosaic(masks, 40, static_cast<int>(plan.draws[0].values[0]),
                              static_cast<int>(plan.draws[0].values[1]), 255));
}

TEST(Mosaic, WithAProbabilityTheSampleMayStayAlone) {
  const Chain chain = parse_or_die("resize(40x40) mosaic(20,p=0.3)");
  int joined = 0;
  for (int64_t position = 0; position < 1000; ++position) {
    const SampleKey key{.seed = 7, .position = position};
    const std::vector<OwnedImage> pictures(static_cast<size_t>(chain.others(key)) + 1, noise_image(40, 40));
    const ChainPlan plan = plan_four(chain, pictures, key);
    EXPECT_EQ(plan.is_joined(), pictures.size() == 4);
    joined += plan.is_joined();
    EXPECT_TRUE(plan.is_joined() || plan.is_copy());
  }
  EXPECT_NEAR(joined, 300, 50);  // 3.4 standard deviations
}

/// A mask is painted where its picture can be seen alone: the same as looking at every pixel.
TEST(Mosaic, MasksArePaintedWhereTheirPictureIs) {
  for (const char* const behind :
       {"", "center_crop(44)", "rotate(30) hflip", "affine(-20..20,0.1,0.1,0.5..1.5,10) random_crop(40)",
        "perspective(0.6,p=1)", "elastic(6,24)", "rot90 pad(5) transpose(1) resize(31x57)"}) {
    const Chain chain = parse_or_die(std::string("mosaic(40) ") + behind);
    const std::vector<OwnedImage> pictures = four_pictures();
    for (int64_t position = 0; position < 40; ++position) {
      const ChainPlan plan = plan_four(chain, pictures, {.seed = 9, .position = position});
      for (size_t k = 0; k < 4; ++k) {
        const OwnedImage classes = noise_image(pictures[k].width, pictures[k].height, 1, k + 1);
        OwnedImage fast(plan.out.width, plan.out.height, 1), plain = fast;
        const Moving moving(plan, k);
        moving.paint_mask(classes.view(), fast.view());
        moving.paint_mask(classes.view(), plain.view(), {0, 0, plan.out.width, plan.out.height});
        ASSERT_EQ(fast, plain) << behind << " " << position << " " << k;
      }
    }
  }
}

TEST(Mosaic, IsRefusedWhereItCannotBe) {
  EXPECT_NE(parse_error("mosaic(40) mosaic(20)").find("can't follow mosaic"), std::string::npos);
  EXPECT_NE(parse_error("one_of(mosaic(40) | hflip)").find("mosaic stands inside one_of"), std::string::npos);
  EXPECT_NE(parse_error("mosaic(0)").find("size"), std::string::npos);
  ChainPlan plan;
  const Status alone = parse_or_die("mosaic(40)").plan({40, 40, 3}, {}, plan);
  EXPECT_EQ(alone.code(), ErrorCode::kMisuse);
  EXPECT_NE(alone.message().find("mosaic takes 4 pictures of a dataset"), std::string::npos)
      << alone.message();
}

}  // namespace
}  // namespace dlpipe::augment
