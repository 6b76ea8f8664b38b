#include "augment/warp.h"

#include <sys/mman.h>

#include "tests/augment/chain_testing.h"
#include "tests/augment/every_target.h"
#include "tests/augment/golden_image.h"

namespace dlpipe::augment {
namespace {

constexpr const char* kWarps[] = {"rotate(33..33,nearest,fill=1:2:3)",
                                  "rotate(33..33,bilinear,fill=1:2:3)",
                                  "rotate(90..90,nearest)",
                                  "affine(-10..-10,0.3..0.3,0..0,0.4,20..20,interpolation=nearest)",
                                  "affine(-10..-10,0.3..0.3,0..0,1.7,20..20,interpolation=bilinear)",
                                  "perspective(0.7,interpolation=nearest,p=1)",
                                  "perspective(0.7,interpolation=bilinear,p=1)",
                                  "elastic(4,6,interpolation=bilinear,p=1)"};

OwnedImage warped(const char* expression, const ConstImageView& source) {
  const Chain chain = parse_or_die(expression);
  const ChainPlan plan = plan_or_die(chain, {source.width, source.height, source.channels}, {});
  OwnedImage out(plan.out.width, plan.out.height, plan.out.channels);
  const Region& r = plan.source_region;
  ChainScratch scratch;
  const Status status = chain.apply(
      plan,
      {source.row(r.y) + ptrdiff_t{r.x} * source.channels, r.width, r.height, source.channels, source.stride},
      out.view(), scratch);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

TEST(Warp, GivesTheSameBitsOnEveryInstructionSet) {
  for (const char* expression : kWarps) {
    for (const auto& [width, height] : {std::pair{1, 1}, {2, 3}, {5, 2}, {17, 16}, {40, 33}, {131, 70}}) {
      for (const int channels : {1, 3, 4}) {
        if (channels != 3 && std::string_view(expression).find("fill") != std::string_view::npos) continue;
        const OwnedImage source = make_image(channels, width, height);
        std::vector<uint8_t> first;
        on_every_target([&] {
          const OwnedImage out = warped(expression, source.view());
          if (first.empty()) first = out.pixels;
          EXPECT_EQ(out.pixels, first)
              << expression << " of " << width << " x " << height << " x " << channels;
        });
      }
    }
  }
}

// A coordinate has 15 bits before the point with nearest, 20 with bilinear.
TEST(Warp, ReadsAllColumnsOfALongImageOrRefusesIt) {
  OwnedImage source(32767, 2, 1);
  for (int y = 0; y < 2; ++y)
    for (int x = 0; x < source.width; ++x) source.view().row(y)[x] = static_cast<uint8_t>(x / 128);
  for (const char* const expression :
       {"grid_distortion(limit=0..0,interpolation=nearest,p=1)", "elastic(0.001,6,interpolation=nearest,p=1)",
        "perspective(0,interpolation=nearest,p=1)", "rotate(0..0,nearest)"})
    EXPECT_EQ(warped(expression, source.view()), source) << expression;
  const auto refusal = [](const char* expression, int width) {
    ChainPlan plan;
    return parse_or_die(expression).plan({width, 4, 3}, {}, plan).message();
  };
  EXPECT_EQ(refusal("rotate(10..10,nearest)", 32767), "");
  EXPECT_EQ(refusal("rotate(10..10,bilinear)", 32768), "");
  EXPECT_NE(refusal("rotate(10..10,nearest)", 32768).find("32768x4 has more than 32767 pixels on a side"),
            std::string::npos);
}

// Rows that lie a gigabyte apart: places in memory that 32 bits don't hold.
TEST(Warp, ReadsImagesOfAnySize) {
  constexpr ptrdiff_t kStride = ptrdiff_t{1} << 30;
  const OwnedImage source = make_image(3, 9, 4);
  void* const memory = ::mmap(nullptr, 4 * kStride, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no 4 GiB of addresses";
  auto* const begin = static_cast<uint8_t*>(memory);
  for (int y = 0; y < source.height; ++y) std::copy_n(source.view().row(y), 27, begin + y * kStride);
  for (const char* expression : kWarps)
    EXPECT_EQ(warped(expression, {begin, 9, 4, 3, kStride}).pixels, warped(expression, source.view()).pixels)
        << expression;
  ::munmap(memory, 4 * kStride);
}

}  // namespace
}  // namespace dlpipe::augment
