#include "engine/optim/gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dlpipe/random.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine {
namespace {

std::vector<NamedTensor> make_gradients() {
  std::vector<NamedTensor> all;
  RandomStream random(5, 5);
  for (const Shape& shape : {Shape{300, 200}, Shape{17}}) {
    Tensor parameter = Tensor::zeros(shape);
    parameter.set_requires_grad(true);
    Tensor grad = Tensor::empty(shape);
    for (int64_t i = 0; i < grad.elements(); ++i) grad.data<float>()[i] = static_cast<float>(random.normal());
    parameter.set_grad(grad);
    all.push_back({"p" + std::to_string(all.size()), parameter});
  }
  all.push_back({"idle", Tensor::zeros({3})});  // no gradient
  return all;
}

TEST(Clip, AnswersTheNormAndScalesToTheLimit) {
  const std::vector<NamedTensor> parameters = make_gradients();
  double squares = 0.0;
  for (const NamedTensor& p : parameters) {
    if (!p.tensor.grad().defined()) continue;
    for (const double g : p.tensor.grad().to_doubles()) squares += g * g;
  }
  const double norm = clip_grad_norm(parameters, 2.0);
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-9 * norm);
  EXPECT_NEAR(grad_norm(parameters), 2.0, 1e-5);
}

TEST(Clip, LeavesSmallGradientsAlone) {
  const std::vector<NamedTensor> parameters = make_gradients();
  const std::vector<double> before = parameters[0].tensor.grad().to_doubles();
  clip_grad_norm(parameters, 1e6);
  EXPECT_EQ(parameters[0].tensor.grad().to_doubles(), before);
}

TEST(Clip, NormIsTheSameBitsOnAnyNumberOfThreads) {
  const int former = engine_threads();
  const std::vector<NamedTensor> parameters = make_gradients();
  set_engine_threads(1);
  const double one = grad_norm(parameters);
  for (const int threads : {2, 3, 8}) {
    set_engine_threads(threads);
    EXPECT_EQ(grad_norm(parameters), one) << threads;
  }
  set_engine_threads(former);
}

TEST(Clip, ANormThatIsNotFiniteScalesNothing) {
  const std::vector<NamedTensor> parameters = make_gradients();
  parameters[1].tensor.grad().data<float>()[3] = std::numeric_limits<float>::infinity();
  const std::vector<double> before = parameters[0].tensor.grad().to_doubles();
  EXPECT_TRUE(std::isinf(clip_grad_norm(parameters, 1.0)));
  EXPECT_EQ(parameters[0].tensor.grad().to_doubles(), before);
}

TEST(Clip, ScalesGradientsThatHaveGaps) {
  Tensor parameter = Tensor::zeros({3, 2});
  parameter.set_requires_grad(true);
  const float values[] = {3, 0, 0, 0, 4, 0};
  const int64_t strides[] = {1, 3};
  parameter.set_grad(Tensor::from<float>(values, {2, 3}).view_as({3, 2}, strides, 0));
  const std::vector<NamedTensor> parameters = {{"p", parameter}};
  EXPECT_NEAR(clip_grad_norm(parameters, 1.0), 5.0, 1e-12);
  EXPECT_NEAR(grad_norm(parameters), 1.0, 1e-6);
  EXPECT_NEAR(parameter.grad().to_doubles()[0], 0.6, 1e-6);
}

TEST(Clip, RefusesALimitThatIsNotPositive) {
  EXPECT_THROW(clip_grad_norm({}, 0.0), Error);
  EXPECT_THROW(clip_grad_norm({}, std::nan("")), Error);
}

}  // namespace
}  // namespace dlpipe::engine
