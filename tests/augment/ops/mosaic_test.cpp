// mosaic beside the plain way: every image made whole, and laid into the canvas by the four cases that YOLO's code spells out.
#include <array>

#include "augment/moving.h"
#include "tests/augment/joined_testing.h"

namespace dlpipe::augment {
namespace {

/// Images of other sizes, and of noise, so that a shift by one shows.
std::vector<OwnedImage> four_images(int channels = 3) {
  return {noise_image(50, 40, channels, 1), noise_image(30, 70, channels, 2),
          noise_image(64, 64, channels, 3), noise_image(21, 90, channels, 4)};
}

ChainPlan plan_four(const Chain& chain, const std::vector<OwnedImage>& images, const SampleKey& key) {
  std::vector<PlannedImage> planned;
  for (size_t k = 0; k < images.size(); ++k)
    planned.push_back(
        {{images[k].width, images[k].height, images[k].channels}, static_cast<int64_t>(10 * k)});
  ChainPlan plan;
  const Status status = chain.plan(planned, key, plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}

OwnedImage run_four(const Chain& chain, const std::vector<OwnedImage>& images, const SampleKey& key,
                    int64_t* read = nullptr) {
  const ChainPlan plan = plan_four(chain, images, key);
  OwnedImage out(plan.out.width, plan.out.height, plan.out.channels);
  Images source(images);
  ChainScratch scratch;
  const Status status = chain.apply_joined(plan, source, out.view(), scratch);
  EXPECT_TRUE(status.ok()) << status.message();
  if (read != nullptr) *read = source.read();
  return out;
}

/// Ultralytics' Mosaic with n = 4, in its own terms: s, xc, yc, and the corners a of the canvas and b of the image.
OwnedImage plain_mosaic(const std::vector<OwnedImage>& images, int s, int xc, int yc, uint8_t fill) {
  OwnedImage canvas(2 * s, 2 * s, images[0].channels);
  std::fill(canvas.pixels.begin(), canvas.pixels.end(), fill);
  for (int i = 0; i < 4; ++i) {
    const OwnedImage& image = images[static_cast<size_t>(i)];
    const int w = image.width, h = image.height;
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
              image.at(x1b + x - x1a, y1b + y - y1a, c);
        }
      }
    }
  }
  return canvas;
}

TEST(Mosaic, IsYolosForDrawnCenters) {
  const Chain chain = parse_or_die("mosaic(40)");
  for (const int channels : {1, 3}) {
    const std::vector<OwnedImage> images = four_images(channels);
    for (int64_t position = 0; position < 60; ++position) {
      const SampleKey key{.seed = 5, .position = position};
      ASSERT_EQ(chain.others(key), 3);
      const ChainPlan plan = plan_four(chain, images, key);
      const int x = static_cast<int>(plan.draws[0].values[0]), y = static_cast<int>(plan.draws[0].values[1]);
      EXPECT_GE(x, 20);
      EXPECT_LT(x, 60);
      EXPECT_GE(y, 20);
      EXPECT_LT(y, 60);
      EXPECT_EQ(run_four(chain, images, key), plain_mosaic(images, 40, x, y, 114)) << position;
    }
  }
}

TEST(Mosaic, TakesAnyCenterAndColor) {
  const std::vector<OwnedImage> images = four_images();
  EXPECT_EQ(run_four(parse_or_die("mosaic(40,center=0,fill=7)"), images, {}),
            plain_mosaic(images, 40, 0, 0, 7));
  EXPECT_EQ(run_four(parse_or_die("mosaic(40,center=1,fill=7)"), images, {}),
            plain_mosaic(images, 40, 80, 80, 7));
  const OwnedImage colored = run_four(parse_or_die("mosaic(100,fill=1:2:3)"), images, {});
  EXPECT_EQ(colored.at(0, 0, 0), 1);
  EXPECT_EQ(colored.at(0, 0, 1), 2);
  EXPECT_EQ(colored.at(0, 0, 2), 3);
}

/// What stands before is run for each image by itself, what stands behind once; every op by itself, and all of the image.
TEST(Mosaic, OpsBeforeAndBehindAreRunAsIfByHand) {
  const std::vector<OwnedImage> images = four_images();
  const Chain chain = parse_or_die(
      "resize(48,side=longer) hflip brightness(0.4) mosaic(40) rotate(20) center_crop(40) hflip");
  for (int64_t position = 0; position < 40; ++position) {
    const SampleKey key{.seed = 9, .position = position};
    const ChainPlan plan = plan_four(chain, images, key);
    std::vector<OwnedImage> made;
    for (size_t k = 0; k < 4; ++k) {
      // The draws of each image, op by op.
      const ChainPlan& one = plan.images[k].plan;
      OwnedImage image = images[k];
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
    EXPECT_EQ(run_four(chain, images, key), run_chain(behind, whole, key)) << position;
  }
}

TEST(Mosaic, OnlyWhatIsSeenIsDecoded) {
  const std::vector<OwnedImage> images(4, noise_image(200, 200));
  int64_t all = 0, cropped = 0;
  run_four(parse_or_die("mosaic(100,center=0.5)"), images, {}, &all);
  EXPECT_EQ(all, 200 * 200);
  const OwnedImage out =
      run_four(parse_or_die("mosaic(100,center=0.5) center_crop(20)"), images, {}, &cropped);
  EXPECT_EQ(cropped, 20 * 20);
  EXPECT_EQ(out, plain_mosaic(images, 100, 100, 100, 0).part({90, 90, 20, 20}));
  // An image of which nothing is seen isn't asked for.
  run_four(parse_or_die("mosaic(100,center=1) center_crop(20)"), images, {}, &cropped);
  EXPECT_EQ(cropped, 20 * 20);
}

TEST(Mosaic, ImagesHaveDrawsOfTheirOwn) {
  const std::vector<OwnedImage> images(4, noise_image(40, 40));
  const Chain chain = parse_or_die("brightness(0.5) mosaic(40)");
  const ChainPlan plan = plan_four(chain, images, {.seed = 1});
  for (size_t k = 1; k < 4; ++k)
    EXPECT_NE(plan.images[k].plan.draws[0].values[0], plan.images[0].plan.draws[0].values[0]);
  // The hash names the others.
  std::vector<PlannedImage> planned;
  for (int64_t k = 0; k < 4; ++k) planned.push_back({{40, 40, 3}, 10 * k + (k == 3 ? 1 : 0)});
  ChainPlan other;
  throw_if_error(chain.plan(planned, {.seed = 1}, other));
  EXPECT_NE(other.hash, plan.hash);
}

TEST(Mosaic, BoxesAndPointsGoWhereThePixelsGo) {
  const std::vector<OwnedImage> images = four_images();
  const Chain chain = parse_or_die("mosaic(40)");
  for (int64_t position = 0; position < 40; ++position) {
    const ChainPlan plan = plan_four(chain, images, {.seed = 2, .position = position});
    for (size_t k = 0; k < 4; ++k) {
      const JoinedImage& at = plan.images[k];
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
  const std::vector<OwnedImage> masks = four_images(1);
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
    const std::vector<OwnedImage> images(static_cast<size_t>(chain.others(key)) + 1, noise_image(40, 40));
    const ChainPlan plan = plan_four(chain, images, key);
    EXPECT_EQ(plan.is_joined(), images.size() == 4);
    joined += plan.is_joined();
    EXPECT_TRUE(plan.is_joined() || plan.is_copy());
  }
  EXPECT_NEAR(joined, 300, 50);  // 3.4 standard deviations
}

/// A mask is painted where its image can be seen alone: the same as looking at every pixel.
TEST(Mosaic, MasksArePaintedWhereTheirImageIs) {
  for (const char* const behind :
       {"", "center_crop(44)", "rotate(30) hflip", "affine(-20..20,0.1,0.1,0.5..1.5,10) random_crop(40)",
        "perspective(0.6,p=1)", "elastic(6,24)", "rot90 pad(5) transpose(1) resize(31x57)"}) {
    const Chain chain = parse_or_die(std::string("mosaic(40) ") + behind);
    const std::vector<OwnedImage> images = four_images();
    for (int64_t position = 0; position < 40; ++position) {
      const ChainPlan plan = plan_four(chain, images, {.seed = 9, .position = position});
      for (size_t k = 0; k < 4; ++k) {
        const OwnedImage classes = noise_image(images[k].width, images[k].height, 1, k + 1);
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
  EXPECT_NE(parse_error("one_of(mosaic(40) | hflip)").find("mosaic is inside one_of"), std::string::npos);
  EXPECT_NE(parse_error("mosaic(0)").find("size"), std::string::npos);
  ChainPlan plan;
  const Status alone = parse_or_die("mosaic(40)").plan({40, 40, 3}, {}, plan);
  EXPECT_EQ(alone.code(), ErrorCode::kMisuse);
  EXPECT_NE(alone.message().find("mosaic joins 4 images of a dataset"), std::string::npos) << alone.message();
}

}  // namespace
}  // namespace dlpipe::augment
