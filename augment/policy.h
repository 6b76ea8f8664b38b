// What ops that choose other ops share: chains to choose from, given by the user or written here.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/augment/op.h"
#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

class ChainPolicy : public PolicyOp {
 public:
  std::vector<const Chain*> choices() const override {
    std::vector<const Chain*> all;
    for (const auto& chain : chains_) all.push_back(chain.get());
    return all;
  }

 protected:
  explicit ChainPolicy(std::vector<std::shared_ptr<const Chain>> chains) : chains_(std::move(chains)) {}
  /// Of built-in ops, one expression a choice; what doesn't parse is refused.
  ChainPolicy(OpArguments& arguments, const std::vector<std::string>& expressions) {
    for (const std::string& expression : expressions) {
      Result<Chain> chain = Chain::parse(expression);
      if (!chain.ok()) arguments.refuse({ErrorCode::kInternal, chain.status().message()});
      chains_.push_back(std::make_shared<const Chain>(chain.ok() ? *std::move(chain) : Chain()));
    }
  }
  int count() const { return static_cast<int>(chains_.size()); }

  /// 0 .. count - 1 in a random order (Fisher and Yates).
  static std::vector<int> shuffled(int count, RandomStream& rng) {
    std::vector<int> order(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) order[static_cast<size_t>(i)] = i;
    for (int i = count - 1; i > 0; --i)
      std::swap(order[static_cast<size_t>(i)], order[rng.below(static_cast<uint32_t>(i) + 1)]);
    return order;
  }

 private:
  std::vector<std::shared_ptr<const Chain>> chains_;
};

inline OpParam ops_parameter(const char* help) {
  return {"ops", "ops", "", help};
}

}  // namespace dlpipe::augment
