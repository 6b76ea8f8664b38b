// Policies beside torchvision's: everything that one can give is in golden/ops/NAME.golden, for the expression of each case.
#pragma once

#include <map>
#include <set>

#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {

/// Of `samples` draws of each expression every result is one that the library gives (unless the file holds a part of them
/// only), and every one of the library's is drawn.
inline void expect_golden_policy(const std::string& policy, int samples, bool is_complete = true) {
  std::map<std::string, std::map<std::vector<uint8_t>, int>> expected;  // which case of its expression
  std::map<std::string, int> cases;
  OwnedImage source(0, 0);
  for_golden_cases(policy, [&](const GoldenOp& golden) {
    expected[golden.expression].emplace(golden.result.pixels, cases[golden.expression]++);
    source = golden.source;
  });
  for (const auto& [expression, results] : expected) {
    const Chain chain = parse_or_die(expression);
    std::set<std::vector<uint8_t>> drawn;
    for (int position = 0; position < samples; ++position)
      drawn.insert(run_chain(chain, source, {.seed = 6, .position = position}).pixels);
    size_t unknown = 0;
    for (const auto& one : drawn) unknown += results.count(one) == 0 ? 1 : 0;
    EXPECT_TRUE(!is_complete || unknown == 0)
        << expression << " draws " << unknown << " that the library doesn't give";
    for (const auto& [pixels, index] : results)
      EXPECT_EQ(drawn.count(pixels), 1u) << expression << " never gives the library's case " << index;
  }
}

}  // namespace dlpipe::augment
