// repeat(times, ops, p): the same ops several times, drawn anew every time.
#include "dlpipe/augment/policy.h"

namespace dlpipe::augment {

namespace {

class Repeat : public ChainPolicy {
 public:
  explicit Repeat(OpArguments& arguments) : ChainPolicy(arguments.chains), times_(arguments.drawn("times")) {}
  Count times() const override { return {static_cast<int>(times_.low), static_cast<int>(times_.high)}; }
  void choose(RandomStream& rng, std::vector<int>& chosen) const override {
    for (int left = times_.draw_int(rng); left > 0; --left)
      chosen.push_back(static_cast<int>(rng.below(static_cast<uint32_t>(count()))));
  }

 private:
  Drawn times_;
};

}  // namespace

extern const OpRecord repeat_augmentation = {
    .name = "repeat",
    .help = "the same ops several times, drawn anew every time",
    .version = 1,
    .params =
        {{.name = "times", .kind = "ints", .default_value = "", .help = "how often", .low = 0, .high = 100},
         ops_parameter("what to repeat; of alternatives one is drawn every time"),
         probability()},
    .build = nullptr,
    .build_policy = build_policy<Repeat>};

}  // namespace dlpipe::augment
