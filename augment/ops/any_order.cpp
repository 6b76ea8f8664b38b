// any_order(a | b | c, p): all of them, in a random order (torchvision's RandomOrder).
#include "dlpipe/augment/policy.h"

namespace dlpipe::augment {

namespace {

class AnyOrder : public ChainPolicy {
 public:
  explicit AnyOrder(OpArguments& arguments) : ChainPolicy(arguments.chains) {}
  Count times() const override { return {count(), count()}; }
  void choose(RandomStream& rng, std::vector<int>& chosen) const override { chosen = shuffled(count(), rng); }
};

}  // namespace

extern const OpRecord any_order_augmentation = {
    .name = "any_order",
    .help = "all of the alternatives, in a random order",
    .version = 1,
    .params = {ops_parameter("what to run, with '|' between them"), probability()},
    .build = nullptr,
    .build_policy = build_policy<AnyOrder>};

}  // namespace dlpipe::augment
