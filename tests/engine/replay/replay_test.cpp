#include "dlpipe/engine/replay/replay.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/base/rng.h"
#include "dlpipe/engine/autograd/function.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/replay/difference.h"

namespace dlpipe::engine::replay {
namespace {

using Inputs = std::vector<Tensor>;
using Loss = std::function<Tensor(const Inputs&)>;

/// Six samples of eight numbers, and their classes, of four.
Inputs inputs(uint64_t seed) {
  std::vector<float> values;
  std::vector<int64_t> labels;
  for (uint64_t i = 0; i < 48; ++i) values.push_back(static_cast<float>(philox_mix(seed, i) % 2001) / 1000 - 1);
  for (uint64_t i = 0; i < 6; ++i) labels.push_back(static_cast<int64_t>(philox_mix(seed + 100, i) % 4));
  return {Tensor::from<float>(values, {6, 8}), Tensor::from<int64_t>(labels, {6})};
}

/// A pass over a module, eager, recorded and replayed.
class Pass {
 public:
  Pass(std::shared_ptr<Module> module, Loss loss) : module_(std::move(module)), loss_(std::move(loss)) {
    for (const NamedTensor& tensor : module_->state_dict()) lasting_.push_back(tensor.tensor);
  }

  double run(const Inputs& inputs) {
    const Tensor loss = loss_(inputs);
    loss.backward();
    return loss.item();
  }
  std::unique_ptr<Recording> record(const Inputs& inputs) {
    auto recording = std::make_unique<Recording>(inputs, lasting_);
    const UseKernelObserver use(recording.get());
    const Tensor loss = loss_(inputs);
    recording->end_first_part(loss);
    loss.backward();
    recording->end();
    return recording;
  }
  double run(Replay& replay, const Inputs& inputs) {
    const double loss = replay.run_first_part(inputs).item();
    replay.run_second_part();
    return loss;
  }
  /// What is not the same in two passes over random inputs.
  std::string difference() {
    const auto first = record(inputs(1));
    module_->zero_grad();
    const auto second = record(inputs(2));
    module_->zero_grad();
    return replay::difference(*first, *second);
  }
  /// A replay and an eager pass of the same inputs, over some steps of plain gradient descent: the same bits.
  void expect_same_bits() {
    const auto first = record(inputs(1)), second = record(inputs(2));
    ASSERT_EQ(replay::difference(*first, *second), "");
    Replay replay(*second);
    for (uint64_t step = 3; step < 6; ++step) {
      const Inputs given = inputs(step);
      module_->zero_grad();
      const double eager = run(given);
      const std::vector<std::string> wanted = gradients();
      module_->zero_grad();
      EXPECT_EQ(run(replay, given), eager);
      EXPECT_EQ(gradients(), wanted) << "step " << step;
      for (NamedTensor& parameter : module_->parameters()) {
        for (int64_t i = 0; i < parameter.tensor.elements(); ++i)
          parameter.tensor.data<float>()[i] -= 0.1f * parameter.tensor.grad().data<float>()[i];
        parameter.tensor.bump_version();
      }
    }
  }
  /// Their bytes.
  std::vector<std::string> gradients() const {
    std::vector<std::string> all;
    for (const NamedTensor& parameter : module_->parameters()) {
      const Tensor grad = parameter.tensor.grad();
      all.emplace_back(grad.defined() ? static_cast<const char*>(grad.raw()) : "", grad.defined() ? grad.size_bytes() : 0);
    }
    return all;
  }
  Module& module() { return *module_; }

 private:
  std::shared_ptr<Module> module_;
  Loss loss_;
  std::vector<Tensor> lasting_;
};

std::shared_ptr<Module> small_mlp(double dropout = 0) {
  auto mlp = std::make_shared<Sequential>();
  mlp->append("fc1", std::make_shared<Linear>(8, 16));
  mlp->append("relu", std::make_shared<ReLU>());
  if (dropout > 0) mlp->append("dropout", std::make_shared<Dropout>(dropout));
  mlp->append("fc2", std::make_shared<Linear>(16, 4));
  initialize(*mlp, 1);
  mlp->train();
  return mlp;
}

Pass mlp_pass(double dropout = 0) {
  const auto mlp = small_mlp(dropout);
  return {mlp, [mlp](const Inputs& in) { return cross_entropy((*mlp)(in[0]), in[1], Tensor(), 0.0); }};
}

TEST(Replay, OfAnMlpGivesTheBitsOfThePass) {
  mlp_pass().expect_same_bits();
}

}  // namespace
}  // namespace dlpipe::engine::replay
