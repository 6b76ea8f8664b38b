#include "run/use/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/run/fake_source.h"
#include "tests/run/small_net.h"

namespace dlpipe::run {

using test::FakeOptions;
using test::FakeSource;

static EvalOptions eval_options() {
  EvalOptions options;
  options.loss = *find_loss("cross_entropy");
  options.metrics = {*engine::find_metric("top1"), *engine::find_metric("top5")};
  return options;
}

TEST(Evaluate, CountsEverySampleOnceAndNoPadding) {
  FakeSource source({.samples = 21, .batch = 8, .shuffle = false});
  const auto net = test::small_net(8, 4, 1);
  const EvalReport report = evaluate(*net, source, eval_options());
  EXPECT_EQ(report.samples, 21);
  EXPECT_EQ(report.dropped, 0);
  EXPECT_EQ(report.value("top5"), 1.0);  // there are four classes
  EXPECT_TRUE(std::isfinite(report.loss));
}

// What decides which checkpoint is best, what is printed and what is logged are one number.
TEST(Evaluate, TheMetricLossIsTheLossThatWasAskedFor) {
  FakeSource source({.samples = 21, .batch = 8, .shuffle = false});
  const auto net = test::small_net(8, 4, 1);
  EvalOptions options = eval_options();
  options.loss = *find_loss("mse");
  options.metrics = {*engine::find_metric("loss"), *engine::find_metric("top1")};
  const EvalReport report = evaluate(*net, source, options);
  EXPECT_EQ(report.metrics.front().second, report.loss);
  options.loss = *find_loss("cross_entropy");
  FakeSource again({.samples = 21, .batch = 8, .shuffle = false});
  EXPECT_NE(evaluate(*net, again, options).loss, report.loss);
}

TEST(Evaluate, DoesNotDependOnTheBatchSize) {
  const auto net = test::small_net(8, 4, 1);
  FakeSource small({.samples = 21, .batch = 4, .shuffle = false});
  FakeSource large({.samples = 21, .batch = 21, .shuffle = false});
  const EvalReport a = evaluate(*net, small, eval_options());
  const EvalReport b = evaluate(*net, large, eval_options());
  EXPECT_NEAR(a.loss, b.loss, 1e-6);
  EXPECT_EQ(a.value("top1"), b.value("top1"));
}

// Averaged over an image and its mirror image, an answer is the same for both.
TEST(Evaluate, FlippedViewsMakeMirrorImagesEqual) {
  const auto net = test::small_net(8, 4, 1);
  net->eval();
  const engine::NoGrad no_grad;
  const engine::Tensor pixels = engine::Tensor::zeros({2, 8, 8, 1}, DType::kF32);
  float* const values = pixels.data<float>();
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      values[y * 8 + x] = static_cast<float>(y * y + 3 * x) / 10;
      values[64 + y * 8 + 7 - x] = values[y * 8 + x];
    }
  }
  const auto one = view_logits(*net, pixels, Views::kOne).to_doubles();
  const auto two = view_logits(*net, pixels, Views::kFlip).to_doubles();
  ASSERT_EQ(two.size(), 8u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(two[i], two[4 + i]);
    EXPECT_NEAR(two[i], (one[i] + one[4 + i]) / 2, 1e-6);
    EXPECT_NE(one[i], one[4 + i]);
  }
  // The corner pixel and its neighbours, moved by one: the edge shows what lies a pixel inside it.
  const auto six = view_logits(*net, pixels, Views::kFlipTranslate).to_doubles();
  const auto moved = [&](int by) {
    const engine::Tensor to = engine::Tensor::zeros({2, 8, 8, 1}, DType::kF32);
    const auto from = [&](int at) { return at + by < 0 ? 1 : at + by > 7 ? 6 : at + by; };
    for (int n = 0; n < 2; ++n) {
      for (int y = 0; y < 8; ++y) {
        for (int x = 0; x < 8; ++x)
          to.data<float>()[n * 64 + y * 8 + x] = values[n * 64 + from(y) * 8 + from(x)];
      }
    }
    return view_logits(*net, to, Views::kFlip).to_doubles();
  };
  const auto less = moved(-1), more = moved(1);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(six[i], two[i] / 2 + less[i] / 4 + more[i] / 4, 1e-6);
  EXPECT_NE(parse_views("flipp").status().message().find("did you mean 'flip'"), std::string::npos);
}

TEST(Evaluate, RowsOfWeightZeroDoNotCountAndAreTold) {
  const auto net = test::small_net(8, 4, 1);
  FakeSource whole({.samples = 16, .batch = 8, .shuffle = false});
  FakeSource holed({.samples = 16, .batch = 8, .shuffle = false, .dropped = {3, 9}});
  double kept_loss = 0;
  int64_t kept = 0;
  evaluate(*net, whole, eval_options(),
           [&](const Batch& batch, std::span<const float> logits, int64_t classes) {
             const auto* labels = reinterpret_cast<const int64_t*>(batch.fields[1].data);
             for (int64_t n = 0; n < batch.count; ++n) {
               if (batch.sample_ids[n] == 3 || batch.sample_ids[n] == 9) continue;
               kept_loss += engine::cross_entropy_of(logits.subspan(n * classes, classes), labels[n]);
               ++kept;
             }
           });
  const EvalReport report = evaluate(*net, holed, eval_options());
  EXPECT_EQ(report.samples, 14);
  EXPECT_EQ(report.dropped, 2);
  EXPECT_NEAR(report.loss, kept_loss / static_cast<double>(kept), 1e-6);
}

TEST(Evaluate, LeavesTheModelAsItWas) {
  const auto net = test::small_net(8, 4, 1);
  net->train();
  FakeSource source(FakeOptions{});
  const auto before = net->buffers()[0].tensor.to_doubles();
  evaluate(*net, source, eval_options());
  EXPECT_TRUE(net->is_training());
  EXPECT_EQ(net->buffers()[0].tensor.to_doubles(), before);
}

TEST(Evaluate, AStopRequestEndsItAsCancelled) {
  const auto net = test::small_net(8, 4, 1);
  FakeSource source(FakeOptions{});
  EvalOptions options = eval_options();
  const std::atomic<bool> stop{true};
  options.stop = &stop;
  try {
    evaluate(*net, source, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

}  // namespace dlpipe::run
