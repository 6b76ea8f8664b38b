#include "dlpipe/graph.h"
#include "engine/graph/run.h"

#include <gtest/gtest.h>

#include "dlpipe/ops.h"
#include "tests/engine/graph/graph_testing.h"

namespace dlpipe::engine::graph {
namespace {

LayoutCopies all_copies(const Graph& graph, int64_t batch) {
  const Tensor x = drawn(graph.value(graph.inputs[0]).shape_at(batch), 5);
  LayoutCopies all;
  for (const LayoutCopies& one : layout_copies(Runner(graph), {&x, 1})) all += one;
  return all;
}

// Whether this machine's kernels give such a convolution's answer in blocks.
bool answers_blocks(const Tensor& x, const Tensor& filters) {
  return conv2d(x, filters, Tensor(), {.padding = {1, 1}}).layout() != Layout::kPlain;
}

TEST(LayoutCopies, AreCountedBeforeTheNodeThatNeedsThem) {
  const Tensor filters = drawn({32, 16, 3, 3}, 1);
  const Graph graph = captured({{1, 8, 9, 16}},
                               [&](const std::vector<Tensor>& in) {
                                 const Tensor y = conv2d(in[0], filters, Tensor(), {.padding = {1, 1}});
                                 return std::vector<Tensor>{exp(transpose(relu(y), {0, 2, 1, 3})), y};
                               },
                               {{"filters", filters}});
  const Tensor x = drawn({2, 8, 9, 16}, 5);
  const int64_t blocks = answers_blocks(x, filters) ? 1 : 0;
  const std::vector<LayoutCopies> copies = layout_copies(Runner(graph), {&x, 1});
  ASSERT_EQ(copies.size(), 5U);  // conv2d, relu, transpose, exp, the outputs
  EXPECT_EQ(copies[1].count(), 0);
  EXPECT_EQ(copies[2].reorders,
            blocks);  // relu's answer lies as the convolution's does; a view wants plain memory
  EXPECT_EQ(copies[2].bytes, blocks * 2 * 8 * 9 * 32 * 4);
  EXPECT_EQ(copies[3].of_views, 1);
  EXPECT_EQ(copies[3].bytes, 2 * 8 * 9 * 32 * 4);
  EXPECT_EQ(copies[4].reorders, blocks);  // the second output
}

// As DenseNet and Inception join what their convolutions answer.
TEST(LayoutCopies, AreNotNeededAroundJoinedConvolutions) {
  const Tensor stem = drawn({64, 3, 3, 3}, 1), left = drawn({32, 64, 1, 1}, 2),
               right = drawn({48, 64, 3, 3}, 3);
  const Tensor behind = drawn({16, 144, 1, 1}, 4), gamma = drawn({144}, 5), beta = drawn({144}, 6);
  Tensor mean = drawn({144}, 7), variance = Tensor::full({144}, 1.5);
  const Graph graph = captured(
      {{1, 12, 10, 3}},
      [&](const std::vector<Tensor>& in) {
        const Tensor x = relu(conv2d(in[0], stem, Tensor(), {.padding = {1, 1}}));
        const Tensor both = concat(
            {x, relu(conv2d(x, left, Tensor())), relu(conv2d(x, right, Tensor(), {.padding = {1, 1}}))}, 3);
        const Tensor y = batch_norm(both, gamma, beta, mean, variance, {.training = false, .relu = true});
        return std::vector<Tensor>{
            global_avg_pool(max_pool2d(conv2d(y, behind, Tensor()), {.kernel = {2, 2}}))};
      },
      {{"stem", stem},
       {"left", left},
       {"right", right},
       {"behind", behind},
       {"gamma", gamma},
       {"beta", beta},
       {"mean", mean},
       {"variance", variance}});
  for (const int64_t batch : {1, 8}) EXPECT_EQ(all_copies(graph, batch).count(), 0) << batch;
}

}  // namespace
}  // namespace dlpipe::engine::graph
