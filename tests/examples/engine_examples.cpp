// Examples of the engine: see README.md here.
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/collective/collective.h"
#include "engine/collective/simulated.h"
#include "engine/core/isa.h"
#include "engine/ops/elementwise.h"

namespace dlpipe::engine {

void function_example(const Tensor& x) {
  struct Square : Function {
    std::string name() const override { return "square"; }
    std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
      save(inputs[0]);
      return {mul(inputs[0], inputs[0])};
    }
    std::vector<Tensor> backward(std::span<const Tensor> grad_outputs) override {
      return {mul(grad_outputs[0], scale(saved(0), 2))};
    }
  };
  Tensor y = run_function(std::make_shared<Square>(), {x})[0];
}

namespace formula_example {  // ops/unary.h has one of this name
struct ReluFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kOutput;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T y, const Attrs&) {
    return y > T(0) ? grad : T(0);
  }
};
float relu_of(float x) {
  return ReluFormula::forward(x, NoAttrs{});
}
}  // namespace formula_example

void isa_example(int64_t n, const float* x, float factor, float* y) {
  using cpu::on_best_isa;
  on_best_isa([=]() DLPIPE_INLINE {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
  });
}

void collective_example(SimulatedNetwork& network, int rank, std::span<float> gradients) {
  auto ranks = value_or_throw(Collective::create([&] { return network.transport(rank); }));
  Collective::Handle sum = ranks->all_reduce(gradients, "gradients of step 17");
  throw_if_error(sum.wait());
}

void simulated_example(int rank) {
  SimulatedNetwork network(4, {.seed = 1, .most_delay_us = 200});
  auto ranks = value_or_throw(Collective::create([&] { return network.transport(rank); }));
}

}  // namespace dlpipe::engine
