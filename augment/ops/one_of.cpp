// one_of(a | b | c, weights, p): one of the alternatives, all equally often or by weights.
#include <numeric>

#include "dlpipe/augment/policy.h"

namespace dlpipe::augment {

namespace {

class OneOf : public ChainPolicy {
 public:
  explicit OneOf(OpArguments& arguments)
      : ChainPolicy(arguments.chains), weights_(arguments.numbers("weights")) {
    if (weights_.empty()) return;
    if (static_cast<int>(weights_.size()) != count()) {
      arguments.refuse({ErrorCode::kMisuse, concat("there are ", weights_.size(), " weights, but ", count(),
                                                   " alternatives; give one for each")});
    } else if (!(total() > 0)) {
      arguments.refuse({ErrorCode::kMisuse, "all weights are 0; give one that is more"});
    }
  }
  Count times() const override { return {1, 1}; }
  void choose(RandomStream& rng, std::vector<int>& chosen) const override {
    if (weights_.empty()) {
      chosen.push_back(static_cast<int>(rng.below(static_cast<uint32_t>(count()))));
      return;
    }
    double left = rng.uniform_double() * total();
    int choice = 0;
    // The last one with a weight is also taken where rounding leaves something.
    for (int i = 0; i < count() && left >= 0; ++i) {
      const double weight = weights_[static_cast<size_t>(i)];
      if (weight > 0) choice = i;
      left -= weight;
    }
    chosen.push_back(choice);
  }

 private:
  double total() const { return std::accumulate(weights_.begin(), weights_.end(), 0.0); }

  std::vector<double> weights_;
};

}  // namespace

extern const OpRecord one_of_augmentation = {
    .name = "one_of",
    .help = "one of the alternatives, all equally often or by weights",
    .version = 1,
    .params = {ops_parameter("alternatives, with '|' between them"),
               {.name = "weights",
                .kind = "list",
                .default_value = "none",
                .help = "how often each is chosen, in proportion; none: equally often",
                .low = 0,
                .is_late = true},
               probability()},
    .build = nullptr,
    .build_policy = build_policy<OneOf>};

}  // namespace dlpipe::augment
