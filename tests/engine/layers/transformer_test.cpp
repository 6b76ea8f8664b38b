#include "dlpipe/layers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"

namespace dlpipe::engine {
namespace {

/// Blocks, a norm and a product behind them, as models have them.
class Tower final : public Module {
 public:
  static constexpr int64_t kWidth = 24;
  static constexpr int kBlocks = 2;

  Tower() {
    for (int i = 0; i < kBlocks; ++i)
      blocks_.push_back(
          add_module(dlpipe::concat("blocks.", i), std::make_shared<TransformerBlock>(kWidth, 3, true)));
    norm_ = add_module("norm", std::make_shared<LayerNorm>(kWidth));
    head_ = add_module("head", std::make_shared<Linear>(kWidth, 5));
    initialize_transformer(*this, 4, kBlocks);
  }
  Tensor forward(const Tensor& x) override {
    Residual stream = {x};
    for (const auto& block : blocks_) stream = (*block)(std::move(stream));
    return (*head_)(norm_->forward_residual(stream));
  }
  std::string kind() const override { return "Tower"; }

 private:
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

Tensor sequences() {
  RandomStream random(5, 1);
  std::vector<float> values(2 * 7 * Tower::kWidth);
  for (float& value : values) value = random.uniform();
  return Tensor::from<float>(values, {2, 7, Tower::kWidth});
}

/// y as f32, the gradient of x, then the parameters'.
std::vector<Tensor> outcome(Module& tower, DType low) {
  const UseAutocast autocast(low);
  Tensor x = sequences();
  x.set_requires_grad(true);
  tower.zero_grad();
  const Tensor y = cast(tower(x), DType::kF32);
  mean(y * y).backward();
  std::vector<Tensor> all = {y, x.grad()};
  for (const NamedTensor& parameter : tower.parameters()) all.push_back(parameter.tensor.grad());
  return all;
}

void expect_same_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].spec(), expected[i].spec()) << i;
    EXPECT_EQ(std::memcmp(got[i].raw(), expected[i].raw(), got[i].size_bytes()), 0) << i;
  }
}

}  // namespace

/// What is watched runs as the modules that it is: a norm is no addition, a block's output is one tensor.
TEST(Transformer, AStreamOfBlocksIsBitForBitTheModules) {
  for (const DType low : {DType::kF32, DType::kBF16}) {
    Tower tower;
    const std::vector<Tensor> streamed = outcome(tower, low);
    int calls = 0;
    for (const Module::Named& named : tower.modules()) {
      const std::string kind = named.module->kind();
      if (kind != "LayerNorm" && kind != "TransformerBlock") continue;
      named.module->register_forward_hook([&](Module&, const Tensor& x, const Tensor& y) {
        ++calls;
        EXPECT_EQ(x.shape(), y.shape());
      });
    }
    expect_same_bits(outcome(tower, low), streamed);
    EXPECT_EQ(calls, 3 * Tower::kBlocks + 1);
  }
}

TEST(Transformer, AStreamOfRecomputedBlocksIsBitForBitTheSame) {
  for (const DType low : {DType::kF32, DType::kBF16}) {
    Tower tower;
    const std::vector<Tensor> kept = outcome(tower, low);
    EXPECT_EQ(tower.checkpoint_activations("blocks.*"), Tower::kBlocks);
    expect_same_bits(outcome(tower, low), kept);
  }
}

}  // namespace dlpipe::engine
