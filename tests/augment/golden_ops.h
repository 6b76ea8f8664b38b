// Comparing an op with the library that defined it: golden/ops/NAME.golden holds expressions, with everything drawn
// fixed, and what the library made of the same images. golden/make_ops_golden.py wrote them.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/augment/chain_testing.h"
#include "tests/augment/every_target.h"
#include "tests/augment/golden_image.h"
#include "tests/base/test_file.h"

namespace dlpipe::augment {

/// run_chain with `values` in place of the first ones that the first op draws.
inline OwnedImage run_with_values(const std::string& expression, const OwnedImage& source,
                                  const std::vector<float>& values) {
  const Chain chain = parse_or_die(expression);
  ChainPlan plan = plan_or_die(chain, {source.width, source.height, source.channels}, {});
  std::copy(values.begin(), values.end(), plan.draws[0].values.begin());
  OwnedImage out(plan.out.width, plan.out.height, plan.out.channels);
  const OwnedImage decoded = source.part(plan.source_region);
  ChainScratch scratch;
  const Status status = chain.apply(plan, decoded.view(), out.view(), scratch);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

struct GoldenOp {
  std::string expression;
  OwnedImage source{0, 0};
  OwnedImage result{0, 0};
  std::vector<float> values;  // that the op is to have drawn
};

/// Calls body(golden) for every case of golden/ops/OP.golden.
template <class Body>
void for_golden_cases(const std::string& op, const Body& body) {
  std::ifstream file(test_file("augment/golden/ops/") + op + ".golden", std::ios::binary);
  ASSERT_TRUE(file) << "no golden file of " << op << "; golden/README.md says how one is made";
  int cases = 0;
  GoldenOp golden;
  for (; std::getline(file, golden.expression); ++cases) {
    std::string numbers;
    std::getline(file, numbers);
    std::istringstream words(numbers);
    int channels = 0, width = 0, height = 0, out_width = 0, out_height = 0;
    words >> channels >> width >> height >> out_width >> out_height;
    ASSERT_TRUE(words) << golden.expression;
    golden.values.clear();
    for (float value = 0; words >> value;) golden.values.push_back(value);
    golden.result = OwnedImage(out_width, out_height, channels);
    file.read(reinterpret_cast<char*>(golden.result.pixels.data()),
              static_cast<std::streamsize>(golden.result.pixels.size()));
    ASSERT_TRUE(file) << golden.expression;
    file.get();
    golden.source = make_image(channels, width, height);
    body(golden);
  }
  EXPECT_GT(cases, 0);
}

/// On every instruction set, `op`'s results differ from the library's by at most `most` in any value, and by at most
/// `most_mean` on average.
inline void expect_golden(const std::string& op, int most = 0, double most_mean = 256) {
  for_golden_cases(op, [&](const GoldenOp& golden) {
    const OwnedImage& expected = golden.result;
    on_every_target([&] {
      const OwnedImage out = run_with_values(golden.expression, golden.source, golden.values);
      ASSERT_EQ(out.width, expected.width) << golden.expression;
      ASSERT_EQ(out.height, expected.height) << golden.expression;
      double sum = 0;
      for (size_t i = 0; i < out.pixels.size(); ++i) {
        const int difference = std::abs(out.pixels[i] - expected.pixels[i]);
        sum += difference;
        const auto pixel = static_cast<int>(i) / out.channels;
        ASSERT_LE(difference, most) << golden.expression << ": " << int{out.pixels[i]} << " at x "
                                    << pixel % out.width << ", y " << pixel / out.width << ", channel "
                                    << static_cast<int>(i) % out.channels << "; the library gives "
                                    << int{expected.pixels[i]};
      }
      EXPECT_LE(sum / static_cast<double>(out.pixels.size()), most_mean) << golden.expression;
    });
  });
}

/// A crop behind the op gives the pixels of the crop of the op's whole result, wherever the crop lies, though less is
/// computed and decoded.
inline void expect_region_is_enough(const std::string& expression, bool reads_less = true) {
  const OwnedImage image = make_image(3, 61, 47);
  const Chain alone = parse_or_die(expression);
  const Chain cropped = parse_or_die(expression + " pad_crop(12x16,0)");
  bool has_read_less = false;
  for (int position = 0; position < 30; ++position) {
    const SampleKey key{.seed = 3, .position = position};
    const ChainPlan plan = plan_or_die(cropped, {61, 47, 3}, key);
    has_read_less = has_read_less || plan.source_region.width * plan.source_region.height < 61 * 47;
    const OwnedImage whole = run_chain(alone, image, key);
    const OpDraw& crop = plan.draws.back();
    ASSERT_EQ(run_chain(cropped, image, key), whole.part(crop.region)) << expression << " at " << position;
  }
  EXPECT_EQ(has_read_less, reads_less) << expression;
}

}  // namespace dlpipe::augment
