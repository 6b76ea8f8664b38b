// one_of(a | b | c, p): one of the alternatives, all equally often.
#include "dlpipe/augment/policy.h"

namespace dlpipe::augment {

namespace {

class OneOf : public ChainPolicy {
 public:
  explicit OneOf(OpArguments& arguments) : ChainPolicy(arguments.chains) {}
  void choose(RandomStream& rng, std::vector<int>& chosen) const override {
    chosen.push_back(static_cast<int>(rng.below(static_cast<uint32_t>(count()))));
  }
};

}  // namespace

extern const OpRecord one_of_augmentation = {
    .name = "one_of",
    .help = "one of the alternatives, all equally often",
    .version = 1,
    .params = {ops_parameter("alternatives, with '|' between them"), probability()},
    .build = nullptr,
    .build_policy = build_policy<OneOf>};

}  // namespace dlpipe::augment
