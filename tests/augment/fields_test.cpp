// Every registered op against the rules of moving.h: a rectangle of another colour is found in the pixels where its mask, its
// box and its points say. An op that is registered and stands in no row here fails the test.
#include <array>
#include <cmath>
#include <map>

#include "augment/moving.h"
#include "tests/augment/golden_crops.h"

namespace dlpipe::augment {
namespace {

constexpr int kSourceWidth = 120;
constexpr int kSourceHeight = 90;
constexpr int kLeft = 30, kTop = 25, kRight = 70, kBottom = 55;
constexpr uint8_t kOutside = 255;  // of a mask: not of the image

enum class Rule {
  kMoves,      // pixels go elsewhere, and what belongs to the image with them
  kStays,      // pixels change where they are, or are erased: nothing moves and no box is dropped
  kDrops,      // no pixel changes: boxes may be dropped
  kRefused,    // the image stands at several places at once: OpTraits::blends
  kDescribes,  // of the whole batch: no op of one image
  kSees,       // draws by the boxes, and may drop others
  kJoins,      // puts several images into one: its own test moves the fields of each
};

struct Row {
  Rule rule;
  const char* expression;
};

const std::map<std::string, Row>& rows() {
  static const std::map<std::string, Row> all = {
      {"affine", {Rule::kMoves, "affine(-20..20,0.1,0.1,0.8..1.3,5,10)"}},
      {"alternating_flip", {Rule::kMoves, "alternating_flip"}},
      {"any_order", {Rule::kMoves, "any_order(hflip(1) | rot90(1) | invert)"}},
      {"augmix", {Rule::kRefused, "augmix"}},
      {"auto_augment", {Rule::kMoves, "auto_augment"}},
      {"autocontrast", {Rule::kStays, "autocontrast"}},
      {"box_blur", {Rule::kStays, "box_blur"}},
      {"brightness", {Rule::kStays, "brightness"}},
      {"cast", {Rule::kDescribes, "cast(f32)"}},
      {"center_crop", {Rule::kMoves, "center_crop(60x50)"}},
      {"channel_drop", {Rule::kStays, "channel_drop"}},
      {"channel_shuffle", {Rule::kStays, "channel_shuffle"}},
      {"clahe", {Rule::kStays, "clahe(4,1x1)"}},
      {"coarse_dropout", {Rule::kStays, "coarse_dropout"}},
      {"color_jitter", {Rule::kStays, "color_jitter(0.4,0.4,0.4,0.1)"}},
      {"contrast", {Rule::kStays, "contrast"}},
      {"copy_paste", {Rule::kJoins, "copy_paste"}},
      {"cutout", {Rule::kStays, "cutout(20)"}},
      {"downscale", {Rule::kStays, "downscale"}},
      {"drop_boxes", {Rule::kDrops, "drop_boxes(0.5)"}},
      {"elastic", {Rule::kMoves, "elastic(6,24)"}},
      {"emboss", {Rule::kStays, "emboss"}},
      {"equalize", {Rule::kStays, "equalize"}},
      {"fancy_pca", {Rule::kStays, "fancy_pca"}},
      {"gamma", {Rule::kStays, "gamma"}},
      {"gaussian_blur", {Rule::kStays, "gaussian_blur"}},
      {"gaussian_noise", {Rule::kStays, "gaussian_noise(0.1)"}},
      {"grayscale", {Rule::kStays, "grayscale"}},
      {"grid_distortion", {Rule::kMoves, "grid_distortion(5,0.3)"}},
      {"grid_mask", {Rule::kStays, "grid_mask"}},
      {"hflip", {Rule::kMoves, "hflip(1)"}},
      {"hue", {Rule::kStays, "hue"}},
      {"invert", {Rule::kStays, "invert"}},
      {"iso_noise", {Rule::kStays, "iso_noise"}},
      {"jpeg", {Rule::kStays, "jpeg(40..90)"}},
      {"median_blur", {Rule::kStays, "median_blur"}},
      {"mosaic", {Rule::kJoins, "mosaic(40)"}},
      {"motion_blur", {Rule::kStays, "motion_blur"}},
      {"normalize", {Rule::kDescribes, "normalize(0.5,0.5)"}},
      {"one_of", {Rule::kMoves, "one_of(hflip(1) | transpose(1) | rotate(20))"}},
      {"pad", {Rule::kMoves, "pad(7:3:11:5)"}},
      {"pad_crop", {Rule::kMoves, "pad_crop(88,10)"}},
      {"pad_to", {Rule::kMoves, "pad_to(150x121)"}},
      {"perspective", {Rule::kMoves, "perspective(0.5,p=1)"}},
      {"poisson_noise", {Rule::kStays, "poisson_noise"}},
      {"posterize", {Rule::kStays, "posterize"}},
      {"randaugment", {Rule::kMoves, "randaugment"}},
      {"random_crop", {Rule::kMoves, "random_crop(60x80)"}},
      {"random_erasing", {Rule::kStays, "random_erasing(p=1)"}},
      {"repeat", {Rule::kMoves, "repeat(3, rot90 | hflip(1))"}},
      {"resize", {Rule::kMoves, "resize(131x77)"}},
      {"rot90", {Rule::kMoves, "rot90"}},
      {"rotate", {Rule::kMoves, "rotate(45)"}},
      {"rrc", {Rule::kMoves, "rrc(64,0.3..1)"}},
      {"safe_crop", {Rule::kSees, "safe_crop"}},
      {"saturation", {Rule::kStays, "saturation"}},
      {"sharpness", {Rule::kStays, "sharpness"}},
      {"shear", {Rule::kMoves, "shear(20,10)"}},
      {"solarize", {Rule::kStays, "solarize"}},
      {"some_of", {Rule::kMoves, "some_of(2, vflip(1) | translate(0.2,0.2) | invert)"}},
      {"ssd_crop", {Rule::kSees, "ssd_crop(overlaps=0.1:0.3)"}},
      {"three_augment", {Rule::kStays, "three_augment"}},
      {"translate", {Rule::kMoves, "translate(0.2,0.2)"}},
      {"transpose", {Rule::kMoves, "transpose(1)"}},
      {"trivial_augment", {Rule::kMoves, "trivial_augment"}},
      {"unsharp", {Rule::kStays, "unsharp"}},
      {"vflip", {Rule::kMoves, "vflip(1)"}},
  };
  return all;
}

bool is_inside(int x, int y) {
  return x >= kLeft && x < kRight && y >= kTop && y < kBottom;
}

OwnedImage marked_image() {
  constexpr std::array<uint8_t, 3> kGround = {40, 80, 160}, kRectangle = {220, 180, 60};
  OwnedImage image(kSourceWidth, kSourceHeight);
  for (int y = 0; y < kSourceHeight; ++y) {
    for (int x = 0; x < kSourceWidth; ++x)
      std::copy_n((is_inside(x, y) ? kRectangle : kGround).data(), 3,
                  &image.pixels[size_t(y * kSourceWidth + x) * 3]);
  }
  return image;
}

struct Outcome {
  OwnedImage pixels{0, 0};
  OwnedImage mask{0, 0, 1};
  std::vector<float> box = {kLeft, kTop, kRight, kBottom};
  std::vector<uint8_t> kept;
  int moves = 0;  // by how many ops: the box of a box holds more than the rectangle
  std::vector<float> point = {(kLeft + kRight) / 2.0f, (kTop + kBottom) / 2.0f, 1};
};

Outcome run(const Chain& chain, const SampleKey& key) {
  Outcome outcome;
  const ChainPlan plan = plan_with_boxes(chain, kSourceWidth, kSourceHeight, outcome.box, key);
  OwnedImage mask(kSourceWidth, kSourceHeight, 1);
  for (int y = 0; y < kSourceHeight; ++y) {
    for (int x = 0; x < kSourceWidth; ++x)
      mask.pixels[size_t(y * kSourceWidth + x)] = is_inside(x, y) ? 1 : 0;
  }
  outcome.pixels = apply_plan(chain, marked_image(), plan);
  outcome.mask = OwnedImage(plan.out.width, plan.out.height, 1);
  for (size_t i = 0; i < plan.draws.size(); ++i) {
    if (plan.draws[i].active && !Chain::op_of(plan, i).first->movement(plan.draws[i]).is_none())
      ++outcome.moves;
  }
  const Moving moving(plan);
  moving.mask(mask.view(), outcome.mask.view(), kOutside);
  moving.boxes(outcome.box, outcome.kept);
  moving.points(outcome.point);
  return outcome;
}

std::array<double, 3> mean_of(const Outcome& o, uint8_t value) {
  std::array<double, 3> sum{};
  double count = 0;
  for (size_t i = 0; i < o.mask.pixels.size(); ++i) {
    if (o.mask.pixels[i] != value) continue;
    ++count;
    for (size_t c = 0; c < 3; ++c) sum[c] += o.pixels.pixels[3 * i + c];
  }
  for (double& each : sum) each /= count > 0 ? count : 1;
  return sum;
}

/// The share of pixels whose colour is nearer to that of the side that the mask puts them on. Black ones, which erased and
/// come from outside, don't count; -1: the two sides can't be told apart.
double agreement(const Outcome& o) {
  const std::array<double, 3> ground = mean_of(o, 0), rectangle = mean_of(o, 1);
  double apart = 0;
  for (size_t c = 0; c < 3; ++c) apart = std::max(apart, std::abs(ground[c] - rectangle[c]));
  if (apart < 24) return -1;
  const auto far = [&](size_t i, const std::array<double, 3>& from) {
    double sum = 0;
    for (size_t c = 0; c < 3; ++c) sum += std::abs(o.pixels.pixels[3 * i + c] - from[c]);
    return sum;
  };
  double all = 0, right = 0;
  for (size_t i = 0; i < o.mask.pixels.size(); ++i) {
    const uint8_t* const pixel = &o.pixels.pixels[3 * i];
    if (o.mask.pixels[i] == kOutside || (pixel[0] == 0 && pixel[1] == 0 && pixel[2] == 0)) continue;
    ++all;
    right += (far(i, rectangle) < far(i, ground)) == (o.mask.pixels[i] == 1) ? 1 : 0;
  }
  return all > 0 ? right / all : -1;
}

/// What the mask shows of the rectangle; nothing: none of it.
std::optional<std::array<int, 4>> bounds_of(const OwnedImage& mask) {
  std::optional<std::array<int, 4>> bounds;
  for (int y = 0; y < mask.height; ++y) {
    for (int x = 0; x < mask.width; ++x) {
      if (mask.at(x, y) != 1) continue;
      if (!bounds) bounds = {x, y, x + 1, y + 1};
      bounds = {std::min((*bounds)[0], x), std::min((*bounds)[1], y), std::max((*bounds)[2], x + 1),
                std::max((*bounds)[3], y + 1)};
    }
  }
  return bounds;
}

void expect_box_and_point_of_mask(const Outcome& o) {
  const std::optional<std::array<int, 4>> seen = bounds_of(o.mask);
  ASSERT_EQ(o.kept[0] != 0, seen.has_value());
  if (!seen) return;
  const bool is_cut =
      (*seen)[0] == 0 || (*seen)[1] == 0 || (*seen)[2] == o.mask.width || (*seen)[3] == o.mask.height;
  for (size_t side = 0; side < 4; ++side) {
    const double at = o.box[side], shown = (*seen)[side];
    EXPECT_LE(side < 2 ? at : shown, (side < 2 ? shown : at) + 2)
        << "the box holds the rectangle, side " << side;
    if (is_cut || o.moves > 1) continue;
    EXPECT_NEAR(at, shown, 2) << "and no more, side " << side;
  }
  if (o.point[2] == 0) return;
  const int x = std::min(static_cast<int>(o.point[0]), o.mask.width - 1);
  const int y = std::min(static_cast<int>(o.point[1]), o.mask.height - 1);
  EXPECT_EQ(o.mask.at(x, y), 1) << "the rectangle's middle at " << o.point[0] << ", " << o.point[1];
}

TEST(Fields, EveryRegisteredOpHasARow) {
  for (const OpRecord* record : OpRegistry::builtin().records())
    EXPECT_TRUE(rows().contains(record->name))
        << record->name << ": say in tests/augment/fields_test.cpp what it does to fields";
  EXPECT_EQ(rows().size(), OpRegistry::builtin().records().size());
}

TEST(Fields, EveryOpMovesThemAsItMovesPixels) {
  for (const auto& [name, row] : rows()) {
    SCOPED_TRACE(row.expression);
    const Chain chain = parse_or_die(row.expression);
    const OpRecord& record = *OpRegistry::builtin().get(name);
    EXPECT_EQ(record.traits.blends, row.rule == Rule::kRefused);
    EXPECT_EQ(record.build_prep != nullptr, row.rule == Rule::kDescribes);
    EXPECT_EQ(chain.find_boxed() != nullptr, row.rule == Rule::kSees || chain.find_paste() != nullptr);
    EXPECT_EQ(chain.find_join() != nullptr, row.rule == Rule::kJoins);
    if (row.rule == Rule::kRefused || row.rule == Rule::kJoins) continue;
    int judged = 0, moved = 0;
    for (int64_t epoch = 0; epoch < 12; ++epoch) {
      SCOPED_TRACE(epoch);
      const Outcome o = run(chain, {.seed = 5, .epoch = epoch, .position = 3, .sample = 3});
      expect_box_and_point_of_mask(o);
      const Outcome still;
      moved += o.box != still.box || o.point != still.point ? 1 : 0;
      const double share = agreement(o);
      if (share < 0) continue;
      ++judged;
      EXPECT_GE(share, 0.9) << "of the pixels are where the mask says";
    }
    EXPECT_GT(judged, 4) << "times the rectangle could be told apart";
    EXPECT_EQ(moved > 0, row.rule == Rule::kMoves || row.rule == Rule::kSees)
        << "moved " << moved << " of 12";
  }
}

}  // namespace
}  // namespace dlpipe::augment
