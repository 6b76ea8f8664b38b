// The global norm of all gradients, and scaling by it. One thread; works in parallel inside.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// Elements [begin, end) of a parameter, of which one process takes care. A border within a parameter is a multiple of
/// kShareUnit: sums over gradients and the blocks of states are cut there, too.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
};
inline constexpr int64_t kShareUnit = 16384;

/// Where a process has the gradients of its shares alone, those, by parameter: flat, undefined where there are none.
struct OwnGradients {
  std::span<const NamedTensor> parameters;
  std::span<const Share> shares;
  std::span<const Tensor> gradients;
};
/// The sums of squares that the norm is made of, one for every kShareUnit elements of each parameter. Those outside of the
/// shares are 0: added up over all processes they are all.
std::vector<double> grad_squares(const OwnGradients& own);
/// The norm that they stand for.
double norm_of_squares(std::span<const double> squares);
/// What clip_grad_norm does with gradients of that norm.
void clip_to_norm(const OwnGradients& own, double max_norm, double norm);

/// L2 norm over all gradients there are, in f64; the order of the sum is fixed by the sizes alone, so that
/// the bits don't depend on threads or ISA.
double grad_norm(std::span<const NamedTensor> parameters);

/// Scales all gradients so that their global L2 norm is at most `max_norm` (by max_norm / (norm + 1e-6) when
/// that is below 1, as PyTorch does); answers the norm before. A norm that isn't finite scales nothing: the
/// caller decides (--on-nonfinite). Error (kMisuse) unless max_norm > 0.
double clip_grad_norm(std::span<const NamedTensor> parameters, double max_norm);
/// The same with a norm that is known: some of these gradients are parts of larger ones.
void clip_to_norm(std::span<const NamedTensor> parameters, double max_norm, double norm);

}  // namespace dlpipe::engine
