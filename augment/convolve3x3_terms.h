// The nine weights of a small filter, put so that few products are made: weights that are alike but for their signs are one
// term, whose pixels are added and subtracted first. Internal to augment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>

namespace dlpipe::augment {

struct Terms3x3 {
  struct Term {
    int weight = 0;
    int added = 0;       // so many taps,
    int subtracted = 0;  // and so many behind them
  };
  std::array<Term, 10> terms = {};
  int count = 0;  // of terms, without those of weight 0
  /// Of all terms, one term after the other: 3 y + x.
  std::array<int, 9> taps = {};
};

inline Terms3x3 terms_of(const std::array<int, 9>& weights) {
  Terms3x3 all;
  size_t taps = 0;
  const auto take = [&](int weight) {
    int taken = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] != weight) continue;
      all.taps[taps++] = static_cast<int>(i);
      ++taken;
    }
    return taken;
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    const int weight = std::abs(weights[i]);
    bool is_new = weight != 0;
    for (size_t j = 0; j < i; ++j) is_new = is_new && std::abs(weights[j]) != weight;
    if (!is_new) continue;
    Terms3x3::Term& term = all.terms[static_cast<size_t>(all.count++)];
    term.weight = weight;
    term.added = take(weight);
    term.subtracted = take(-weight);
  }
  return all;
}

}  // namespace dlpipe::augment
