// some_of(n, a | b | c, p): n different ones of the alternatives, in the order in which they are written.
#include <algorithm>

#include "dlpipe/augment/policy.h"

namespace dlpipe::augment {

namespace {

class SomeOf : public ChainPolicy {
 public:
  explicit SomeOf(OpArguments& arguments) : ChainPolicy(arguments.chains), n_(arguments.drawn("n")) {
    if (n_.high > count())
      arguments.refuse(
          {ErrorCode::kMisuse, concat("n is ", n_.high, ", but there are ", count(), " alternatives")});
  }
  Count times() const override { return {static_cast<int>(n_.low), static_cast<int>(n_.high)}; }
  void choose(RandomStream& rng, std::vector<int>& chosen) const override {
    std::vector<int> order = shuffled(count(), rng);
    order.resize(static_cast<size_t>(n_.draw_int(rng)));
    std::sort(order.begin(), order.end());
    chosen.insert(chosen.end(), order.begin(), order.end());
  }

 private:
  Drawn n_;
};

}  // namespace

extern const OpRecord some_of_augmentation = {
    .name = "some_of",
    .help = "several of the alternatives, in the order in which they are written",
    .version = 1,
    .params = {{.name = "n",
                .kind = "ints",
                .default_value = "",
                .help = "how many, each at most once",
                .low = 0,
                .high = 1000},
               ops_parameter("alternatives, with '|' between them"),
               probability()},
    .build = nullptr,
    .build_policy = build_policy<SomeOf>};

}  // namespace dlpipe::augment
