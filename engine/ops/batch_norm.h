// batch_norm: its tensors by name, for the kernels of every backend, and the statistics of a batch that is computed in separate
// parts. [C] is the images' last axis.
#pragma once

#include <cstdint>
#include <span>

#include "dlpipe/op.h"
#include "dlpipe/tensor.h"
#include "engine/ops/window.h"

namespace dlpipe::engine {

struct BatchNormTensors {
  Tensor x;
  Tensor gamma;         // [C]
  Tensor beta;          // [C]
  Tensor running_mean;  // [C], updated in training
  Tensor running_var;   // [C], updated in training
  Tensor residual;      // shape of x; undefined: none
  Tensor y;             // output: the images
  Tensor mean;          // [C], output: the mean that was used
  Tensor inverse;       // [C], output: 1/sqrt(variance + epsilon) of the variance that was used

  explicit BatchNormTensors(const ForwardArgs& args)
      : x(args.inputs[0]),
        gamma(args.inputs[1]),
        beta(args.inputs[2]),
        running_mean(args.inputs[3]),
        running_var(args.inputs[4]),
        residual(has_input(args.inputs, 5) ? args.inputs[5] : Tensor()),
        y(args.outputs[0]),
        mean(args.outputs[1]),
        inverse(args.outputs[2]) {}
};

/// Undefined targets are not needed.
struct BatchNormGradients {
  Tensor x;
  Tensor gamma;
  Tensor y;  // undefined without relu
  Tensor mean;
  Tensor inverse;
  Tensor grad_y;
  Tensor to_x;
  Tensor to_gamma;
  Tensor to_beta;
  Tensor to_residual;

  explicit BatchNormGradients(const BackwardArgs& args)
      : x(args.inputs[0]),
        gamma(args.inputs[1]),
        y(has_input(args.outputs, 0) ? args.outputs[0] : Tensor()),
        mean(args.outputs[1]),
        inverse(args.outputs[2]),
        grad_y(args.grad_outputs[0]),
        to_x(wanted(args, 0)),
        to_gamma(wanted(args, 1)),
        to_beta(wanted(args, 2)),
        to_residual(wanted(args, 5)) {}

 private:
  static Tensor wanted(const BackwardArgs& args, size_t input) {
    return has_input(args.grad_inputs, input) ? args.grad_inputs[input] : Tensor();
  }
};

/// The first element; null if the tensor is undefined.
template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw()) : nullptr;
}

// Synchronised batch norm (--sync-bn): the parts of a batch that are computed separately, on other threads or in other
// processes, exchange their sums, so that each normalises by the whole batch's statistics.
//
// StatisticsPeers is called by the thread that runs the op.

/// The parts of one batch, of equal size and computed by the same ops in the same order.
class StatisticsPeers {
 public:
  virtual ~StatisticsPeers() = default;
  /// Replaces `values` by their sum over all parts, with the same bits in each. Waits for the others; throws if one
  /// of them has failed.
  virtual void sum(std::span<float> values) = 0;
  virtual int64_t parts() const = 0;
  /// Whether this part updates the process's running statistics, which are the same in all parts.
  virtual bool leads() const = 0;
};

namespace thread_state {
StatisticsPeers*& statistics_peers();
}

/// The calling thread's peers; null: batch norms use the statistics of their own input only.
inline StatisticsPeers* statistics_peers() {
  return thread_state::statistics_peers();
}
/// While an object lives, this thread's batch norms in training use the given peers.
using UseStatisticsPeers = ScopedValue<thread_state::statistics_peers>;

/// The moments of one channel.
struct Moments {
  double count = 0, mean = 0, squares = 0;  // squares: sum of (x - mean)^2

  /// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
  /// 1979.
  void add(double other_count, double other_mean, double other_squares) {
    const double both = count + other_count;
    const double delta = other_mean - mean;
    mean += delta * other_count / both;
    squares += other_squares + delta * delta * count * other_count / both;
    count = both;
  }
};

/// Replaces the moments of one part, [C], by those of the whole batch: first its mean, then the squares about it.
void share_moments(StatisticsPeers& peers, std::span<Moments> channels);

/// The sums that backward needs for one channel: sums of g and of g (x - mean), or of g xhat.
struct GradientTotals {
  double sum = 0, weighted = 0;
};
/// Replaces the totals of one part, [C], by those of the whole batch.
void share_totals(StatisticsPeers& peers, std::span<GradientTotals> channels);

}  // namespace dlpipe::engine
