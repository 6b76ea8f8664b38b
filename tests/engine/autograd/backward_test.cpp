#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "dlpipe/engine/autograd/node.h"
#include "dlpipe/engine/op.h"
#include "dlpipe/engine/ops.h"

namespace dlpipe::engine {
namespace {

Tensor leaf(std::vector<float> values) {
  Tensor x = Tensor::from<float>(values, {static_cast<int64_t>(values.size())});
  return x.set_requires_grad(true);
}
std::vector<double> doubles(std::initializer_list<double> values) {
  return values;
}
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
  Tensor a = relu(x);
  Tensor b = add(a, a);
  Tensor c = add(b, a);
  c.backward(Tensor::full({2}, 1.0));
  EXPECT_EQ(x.grad().to_doubles(), doubles({3, 0}));
}

TEST(Backward, SecondThroughAFreedGraphIsAnErrorThatNamesTheOp) {
  Tensor x = leaf({1, -2});
  Tensor y = relu(x);
  const Tensor seed = Tensor::full({2}, 1.0);
  y.backward(seed);
  EXPECT_EQ(
      message_of([&] { y.backward(seed); }),
      "[backward] the graph of relu was freed by an earlier backward; pass retain_graph = true to that one");
  Tensor z = relu(x);
  z.backward(seed, true);
  z.backward(seed, true);
  EXPECT_EQ(x.grad().to_doubles(), doubles({3, 0}));
}

}  // namespace
}  // namespace dlpipe::engine
