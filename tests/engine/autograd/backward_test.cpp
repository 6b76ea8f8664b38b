#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/node.h"

namespace dlpipe::engine {
namespace {

Tensor leaf(const std::vector<float>& values) {
  Tensor x = Tensor::from<float>(values, {static_cast<int64_t>(values.size())});
  return x.set_requires_grad(true);
}
using Doubles = std::vector<double>;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Backward, SumsTheTwoSidesOfADiamond) {
  Tensor x = leaf({1, -2});
  const Tensor a = scale(x, 2.0);
  const Tensor y = add(mul(a, a), a);  // 4x^2 + 2x
  y.backward(Tensor::full({2}, 1.0));
  EXPECT_EQ(x.grad().to_doubles(), (Doubles{10, -14}));
}

TEST(Backward, VisitsANodeOnceHoweverManyPathsLeadToIt) {
  Tensor x = leaf({1});
  int calls = 0;
  Tensor y = scale(x, 1.0);
  y.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  for (int i = 0; i < 40; ++i) y = add(y, y);  // 2^40 paths
  y.backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().item(), 1099511627776.0);
}

TEST(Backward, AddsToTheGradientsOfEarlierCalls) {
  Tensor x = leaf({3});
  for (int i = 0; i < 3; ++i) mul(x, x).backward();
  EXPECT_EQ(x.grad().item(), 18);
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  mul(x, x).backward();
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(Backward, LeavesDoNotShareTheMemoryOfTheirGradients) {
  Tensor x = leaf({1, 2});
  Tensor y = leaf({3, 4});
  const Tensor seed = Tensor::full({2}, 1.0);
  add(x, y).backward(seed);
  x.grad().data<float>()[0] = 7;
  EXPECT_EQ(y.grad().to_doubles(), (Doubles{1, 1}));
  EXPECT_EQ(seed.to_doubles(), (Doubles{1, 1}));
}

TEST(Backward, AChainOfAHundredThousandOpsNeedsNoDeepStack) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = scale(y, 1.0);
  y.backward();
  EXPECT_EQ(x.grad().item(), 1);
}

TEST(Backward, AChainThatIsDroppedWithoutBackwardNeedsNoDeepStack) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = mul(y, x);
  y = Tensor();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, ASecondCallThroughAFreedGraphNamesTheOp) {
  Tensor x = leaf({1, -2});
  const Tensor y = relu(x);
  const Tensor seed = Tensor::full({2}, 1.0);
  y.backward(seed);
  EXPECT_EQ(
      message_of([&] { y.backward(seed); }),
      "[backward] the graph of relu was freed by an earlier backward; pass retain_graph = true to that one");
}

TEST(Backward, ARetainedGraphCanBeWalkedAgain) {
  Tensor x = leaf({1, -2});
  const Tensor y = relu(x);
  const Tensor seed = Tensor::full({2}, 1.0);
  y.backward(seed, true);
  y.backward(seed, true);
  y.backward(seed);
  EXPECT_EQ(x.grad().to_doubles(), (Doubles{3, 0}));
}

TEST(Backward, ChangingASavedTensorInPlaceNamesTheOp) {
  Tensor x = leaf({1, 2});
  Tensor b = Tensor::full({2}, 3.0);
  const Tensor y = mul(x, b);
  b.data<float>()[0] = 5;
  b.bump_version();
  const std::string message = message_of([&] { y.backward(Tensor::full({2}, 1.0)); });
  EXPECT_EQ(message,
            "[mul] a tensor saved for backward was changed in place (version 1, saved at 0); clone it before "
            "changing it");
}

TEST(Backward, AChangeThroughAViewCounts) {
  Tensor x = leaf({1, 2});
  Tensor b = Tensor::full({2}, 3.0);
  const Tensor y = mul(x, b);
  Tensor view = slice(b, 0, 0, 1);
  view.bump_version();
  EXPECT_NE(message_of([&] { y.backward(Tensor::full({2}, 1.0)); }).find("[mul]"), std::string::npos);
}

TEST(Backward, ChangingWhatNoOpSavedIsAllowed) {
  Tensor x = leaf({1, 2});
  Tensor b = Tensor::full({2}, 3.0);
  const Tensor y = add(x, b);
  b.bump_version();
  y.backward(Tensor::full({2}, 1.0));
  EXPECT_EQ(x.grad().to_doubles(), (Doubles{1, 1}));
}

TEST(Backward, NeedsASeedForMoreThanOneElementAndAHistory) {
  Tensor x = leaf({1, 2});
  EXPECT_NE(message_of([&] { relu(x).backward(); }).find("needs a seed gradient"), std::string::npos);
  EXPECT_NE(message_of([&] {
              relu(x).backward(Tensor::full({3}, 1.0));
            }).find("[relu] got a gradient of shape [3]"),
            std::string::npos);
  EXPECT_NE(message_of([] { Tensor::full({}, 1.0).backward(); }).find("has no history"), std::string::npos);
}

TEST(Backward, StopsAtDetachedTensors) {
  Tensor x = leaf({2});
  const Tensor y = mul(x, x.detach());
  y.backward();
  EXPECT_EQ(x.grad().item(), 2);
  EXPECT_FALSE(mul(x, x).detach().requires_grad());
}

TEST(Backward, NothingIsRecordedUnderNoGrad) {
  Tensor x = leaf({2});
  {
    const NoGrad no_grad;
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE(mul(x, x).requires_grad());
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(mul(x, x).requires_grad());
  EXPECT_TRUE(mul(x, x).is_leaf() == false && x.is_leaf());
}

TEST(Backward, FrozenInputsCostNoGradient) {
  Tensor x = leaf({2});
  Tensor frozen = Tensor::full({1}, 3.0);
  mul(x, frozen).backward();
  EXPECT_EQ(x.grad().item(), 3);
  EXPECT_FALSE(frozen.grad().defined());
}

TEST(Backward, FreesWhatTheGraphSaved) {
  Tensor x = leaf({2});
  std::weak_ptr<Node> node;
  Tensor y = mul(x, x);
  node = y.node();
  EXPECT_FALSE(node.lock()->released());
  y.backward();
  EXPECT_TRUE(node.lock()->released());
  y = Tensor();
  EXPECT_TRUE(node.expired());
}

TEST(Hooks, SeeAndMayReplaceTheGradientOfALeaf) {
  Tensor x = leaf({1, 2});
  x.register_hook([](const Tensor& grad) { return scale(grad, 10.0); });
  Tensor seen;
  x.register_hook([&](const Tensor& grad) {
    seen = grad.clone();
    return Tensor();
  });
  add(x, x).backward(Tensor::full({2}, 1.0));
  EXPECT_EQ(x.grad().to_doubles(), (Doubles{20, 20}));
  EXPECT_EQ(seen.to_doubles(), (Doubles{20, 20})) << "hooks run in order, on the whole gradient";
}

TEST(Hooks, OfAnInnerTensorChangeWhatFlowsOn) {
  Tensor x = leaf({3});
  Tensor y = mul(x, x);
  y.register_hook([](const Tensor& grad) { return scale(grad, -1.0); });
  scale(y, 2.0).backward();
  EXPECT_EQ(x.grad().item(), -12);
}

TEST(Hooks, MustAnswerTheRightShape) {
  Tensor x = leaf({3});
  Tensor y = mul(x, x);
  y.register_hook([](const Tensor&) { return Tensor::zeros({2}); });
  EXPECT_NE(message_of([&] { y.backward(); }).find("[hook] got a gradient of shape [2]"), std::string::npos);
  EXPECT_NE(message_of([] {
              Tensor::zeros({1}).register_hook([](const Tensor&) { return Tensor(); });
            }).find("needs no gradient"),
            std::string::npos);
}

TEST(Hooks, SeePlainGradientsOfBlockedTensors) {
  Tensor x = Tensor::full({1, 2, 2, 16}, 1.0);
  x.set_requires_grad(true);
  Tensor blocked = reorder(x, Layout::kBlocked8);
  const Tensor y = relu(blocked);
  EXPECT_EQ(y.layout(), Layout::kBlocked8);
  Layout seen = Layout::kBlocked8;
  blocked.register_hook([&](const Tensor& grad) {
    seen = grad.layout();
    return Tensor();
  });
  sum(y).backward();
  EXPECT_EQ(seen, Layout::kPlain);
  EXPECT_EQ(x.grad().layout(), Layout::kPlain);
  EXPECT_EQ(x.grad().to_doubles(), Doubles(64, 1.0));
}

TEST(Autocast, LowPrecisionReachesTheGraphAndGradientsComeBackWide) {
  Tensor x = Tensor::full({2, 4}, 1.0);
  Tensor w = Tensor::full({4, 3}, 0.5);
  w.set_requires_grad(true);
  Tensor loss;
  {
    const UseAutocast autocast(DType::kBF16);
    const Tensor y = matmul(x, w);
    EXPECT_EQ(y.dtype(), DType::kBF16);
    EXPECT_EQ(add(y, y).dtype(), DType::kBF16) << "elementwise ops follow";
    EXPECT_EQ(add(y, cast(y, DType::kF16)).dtype(), DType::kF32) << "neither holds the other";
    EXPECT_EQ(add(y, Tensor::zeros({3})).dtype(), DType::kF32) << "mixed goes wide";
    loss = mse(y, Tensor::zeros({2, 3}));
    EXPECT_EQ(loss.dtype(), DType::kF32) << "losses are f32";
  }
  loss.backward();
  EXPECT_EQ(w.grad().dtype(), DType::kF32);
  // y = 2, dloss/dy = 2 y / 6, two rows of ones.
  for (double grad : w.grad().to_doubles()) EXPECT_NEAR(grad, 4.0 / 3.0, 0.01);
}

}  // namespace
}  // namespace dlpipe::engine
