// Ops that choose among the ops in their arguments, or run them in another order.
#include <algorithm>
#include <numeric>

#include "augment/arguments.h"
#include "augment/kinds.h"

namespace dlpipe::augment {

// one_of(a | b | c, weights, p): one of the alternatives, uniformly or by weights.
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
      arguments.refuse({ErrorCode::kMisuse, "all weights are 0; give one above 0"});
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
    // The last one with a weight is also chosen if rounding leaves a remainder.
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
    .help = "one of the alternatives, equally often or by weights",
    .version = 1,
    .params = {ops_parameter("alternatives, with '|' between them"),
               {.name = "weights",
                .kind = "list",
                .default_value = "none",
                .help = "relative frequency of each; none: equally often",
                .low = 0,
                .is_late = true},
               probability()},
    .build = nullptr,
    .build_policy = build_policy<OneOf>};

// some_of(n, a | b | c, p): n different alternatives, in the order in which they are written.
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

extern const OpRecord some_of_augmentation = {.name = "some_of",
                                              .help = "several of the alternatives, in the order written",
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

// any_order(a | b | c, p): all of them in a random order (torchvision's RandomOrder).
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

// repeat(times, ops, p): runs the same ops several times, drawn again each time.
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
    .help = "the same ops several times, drawn again each time",
    .version = 1,
    .params =
        {{.name = "times", .kind = "ints", .default_value = "", .help = "how often", .low = 0, .high = 100},
         ops_parameter("what to repeat; one of several alternatives is drawn each time"),
         probability()},
    .build = nullptr,
    .build_policy = build_policy<Repeat>};

// color_jitter(brightness, contrast, saturation, hue): draws each separately and runs them in a random order
// (torchvision's ColorJitter). Those at their neutral value are left out.
namespace {

class ColorJitter : public ChainPolicy {
 public:
  explicit ColorJitter(OpArguments& arguments) : ChainPolicy(arguments, expressions(arguments)) {}
  Count times() const override { return {count(), count()}; }
  void choose(RandomStream& rng, std::vector<int>& chosen) const override { chosen = shuffled(count(), rng); }

 private:
  static std::vector<std::string> expressions(OpArguments& arguments) {
    std::vector<std::string> all;
    for (const char* name : {"brightness", "contrast", "saturation", "hue"}) {
      const Drawn range = arguments.drawn(name);
      const double neutral = std::string_view(name) == "hue" ? 0 : 1;
      if (range.low != neutral || range.high != neutral)
        all.push_back(concat(name, "(", range_text(range), ")"));
    }
    return all;
  }
};

}  // namespace

extern const OpRecord color_jitter_augmentation = {
    .name = "color_jitter",
    .help = "brightness, contrast, saturation and hue in a random order (ColorJitter)",
    .version = 1,
    .params = {factor_parameter("brightness", "0", "factors; 1 changes nothing"),
               factor_parameter("contrast", "0", "factors; 1 changes nothing"),
               factor_parameter("saturation", "0", "factors; 1 changes nothing"),
               {.name = "hue",
                .kind = "spread",
                .default_value = "0",
                .help = "share of the full circle",
                .low = -0.5,
                .high = 0.5,
                .unit = "turns"},
               probability()},
    .build = nullptr,
    .build_policy = build_policy<ColorJitter>};

}  // namespace dlpipe::augment
