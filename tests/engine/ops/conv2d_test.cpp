#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/allocator.h"
#include "engine/core/parallel.h"
#include "engine/cpu/conv/conv2d_choice.h"
#include "engine/cpu/conv/conv2d_winograd.h"
#include "tests/engine/conv_testing.h"

namespace dlpipe::engine {
namespace {

using test::distance;

Tensor noise(const Shape& shape, uint64_t key) {
  return test::uniform_noise(shape, RandomStream(20261121, key));
}

struct Case {
  std::string name;
  Shape x, weight;
  Conv2dAttrs attrs;
  bool bias = false;
};

Conv2dShape shape_of(const Case& c) {
  return conv2d_shape(c.x, c.weight, c.attrs);
}

struct Answer {
  Tensor y, dx, dweight, dbias;
};

/// One forward and backward on `backend`, images and weights in `dtype`.
Answer run(const Case& c, Backend backend, DType dtype = DType::kF32, bool image_gradient = true) {
  const UseBackend use(backend);
  const auto leaf = [&](const Shape& shape, uint64_t key, bool gradient) {
    // bf16 values for both, so that the reference works on what the kernel sees.
    return cast(cast(noise(shape, key), DType::kBF16), dtype).detach().set_requires_grad(gradient);
  };
  Tensor x = leaf(c.x, 1, image_gradient);
  Tensor weight = leaf(c.weight, 2, true);
  Tensor bias = c.bias ? leaf({c.weight[0]}, 3, true) : Tensor();
  const Tensor y = conv2d(x, weight, bias, c.attrs);
  y.backward(cast(cast(noise(y.shape(), 4), DType::kBF16), dtype));
  return {plain(y.detach()), x.grad(), weight.grad(), c.bias ? bias.grad() : Tensor()};
}

void expect_close(const Answer& got, const Answer& expected, double tolerance, const std::string& what) {
  EXPECT_LE(distance(got.y, expected.y), tolerance) << what << ", forward";
  EXPECT_LE(distance(got.dx, expected.dx), tolerance) << what << ", gradient of images";
  EXPECT_LE(distance(got.dweight, expected.dweight), tolerance) << what << ", gradient of weights";
  EXPECT_LE(distance(got.dbias, expected.dbias), tolerance) << what << ", gradient of bias";
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || std::memcmp(a.raw(), b.raw(), a.size_bytes()) == 0);
}
bool same_bits(const Answer& a, const Answer& b) {
  return same_bits(a.y, b.y) && same_bits(a.dx, b.dx) && same_bits(a.dweight, b.dweight) &&
         same_bits(a.dbias, b.dbias);
}

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"one pixel", {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {"lenet", {3, 28, 28, 1}, {6, 1, 5, 5}, {.padding = {2, 2}}, true},
      {"lenet second", {3, 14, 14, 6}, {16, 6, 5, 5}, {}, true},
      {"stem", {2, 33, 35, 3}, {16, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}, true},
      {"grey stem", {5, 9, 9, 1}, {32, 1, 3, 3}, {.padding = {1, 1}}},
      {"blocks", {3, 9, 10, 32}, {48, 32, 3, 3}, {.padding = {1, 1}}, true},
      {"blocks, stride 2", {2, 9, 11, 16}, {32, 16, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {"deep", {2, 4, 4, 128}, {128, 128, 3, 3}, {.padding = {1, 1}}, true},
      {"narrower than the filter", {3, 2, 2, 48}, {64, 48, 3, 3}, {.padding = {1, 1}}, true},
      {"narrow, stride 2", {3, 2, 1, 32}, {16, 32, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {"1x1", {3, 7, 5, 64}, {24, 64, 1, 1}, {}, true},
      {"1x1 stride 2", {2, 7, 8, 32}, {64, 32, 1, 1}, {.stride = {2, 2}}},
      {"to odd channels", {2, 6, 6, 16}, {10, 16, 3, 3}, {.padding = {1, 1}}, true},
      {"from odd channels", {2, 6, 6, 13}, {16, 13, 3, 3}, {.padding = {1, 1}}},
      {"from five channels", {2, 6, 6, 5}, {8, 5, 3, 3}, {.padding = {1, 1}}},
      {"stride above kernel", {2, 11, 12, 8}, {8, 8, 2, 3}, {.stride = {3, 4}}, true},
      {"dilation", {2, 12, 11, 16}, {16, 16, 3, 3}, {.padding = {2, 3}, .dilation = {2, 3}}},
      {"tall kernel", {2, 12, 6, 8}, {16, 8, 5, 1}, {.stride = {1, 2}, .padding = {2, 0}}},
      {"padding above kernel", {1, 5, 5, 8}, {8, 8, 2, 2}, {.padding = {3, 3}}, true},
      {"kernel of the image's size", {2, 6, 5, 16}, {32, 16, 6, 5}, {}},
      {"groups", {2, 6, 7, 32}, {64, 8, 3, 3}, {.padding = {1, 1}, .groups = 4}, true},
      {"groups of odd channels", {2, 6, 7, 6}, {9, 2, 3, 3}, {.padding = {1, 1}, .groups = 3}, true},
      {"depthwise", {3, 9, 8, 32}, {32, 1, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 32}, true},
      {"depthwise, odd channels", {2, 9, 8, 5}, {5, 1, 3, 3}, {.padding = {1, 1}, .groups = 5}},
      {"depthwise multiplier", {2, 7, 7, 8}, {16, 1, 3, 3}, {.padding = {1, 1}, .groups = 8}, true},
  };
  return all;
}

TEST(Conv2dOp, EqualsPlainLoopsForManyShapes) {
  for (const Case& c : cases()) {
    const Answer expected = run(c, Backend::kReference);
    expect_close(run(c, Backend::kCpu), expected, 2e-5, c.name);
    // bf16 rounds the outputs (2^-9); gradients of weights are rounded sums.
    expect_close(run(c, Backend::kCpu, DType::kBF16), expected, 1e-2, c.name + ", bf16");
  }
}

// Kernels made for large images may read past small ones, as oneDNN 2.6's bf16 gradient of weights does.
TEST(Conv2dOp, EqualsPlainLoopsForSmallImages) {
  for (int kernel : {1, 2, 3, 5}) {
    for (int stride : {1, 2, 3}) {
      for (int padding = 0; padding < kernel; ++padding) {
        for (int64_t height : {1, 2, 5}) {
          for (int64_t width = 1; width <= 8; ++width) {
            if (std::min(width, height) + 2 * padding < kernel) continue;
            const Case c = {dlpipe::concat("kernel ", kernel, " stride ", stride, " padding ", padding,
                                           " of ", height, "x", width),
                            {3, height, width, 32},
                            {16, 32, kernel, kernel},
                            {.stride = {stride, stride}, .padding = {padding, padding}}};
            const Answer expected = run(c, Backend::kReference);
            expect_close(run(c, Backend::kCpu), expected, 2e-5, c.name);
            expect_close(run(c, Backend::kCpu, DType::kBF16), expected, 1e-2, c.name + ", bf16");
          }
        }
      }
    }
  }
}

TEST(Conv2dOp, LeavesOutTheImagesGradientWhenNobodyWantsIt) {
  const Case stem = {"", {2, 9, 9, 3}, {16, 3, 3, 3}, {.padding = {1, 1}}, true};
  const Answer all = run(stem, Backend::kCpu);
  const Answer some = run(stem, Backend::kCpu, DType::kF32, false);
  EXPECT_FALSE(some.dx.defined());
  EXPECT_TRUE(same_bits(some.dweight, all.dweight));
}

/// Puts choices for a case into the table, and the built-in rules back at the end.
class ForcedChoice {
 public:
  ForcedChoice(const Case& c, const char* pass, const KernelChoice& choice, DType dtype = DType::kF32) {
    kernel_table().set(dlpipe::concat("conv2d ", pass, " ", cpu::conv_key(shape_of(c), dtype)), choice);
  }
  ~ForcedChoice() { kernel_table().clear(); }
  ForcedChoice(const ForcedChoice&) = delete;
  ForcedChoice& operator=(const ForcedChoice&) = delete;
};

TEST(Conv2dOp, EveryWayOfSlicingGivesTheSameValues) {
  const Case blocked = {
      "blocked", {5, 8, 6, 32}, {64, 32, 3, 3}, {.stride = {1, 2}, .padding = {1, 1}}, true};
  const Case odd = {"plain", {5, 11, 6, 10}, {7, 10, 3, 3}, {.stride = {2, 1}, .padding = {1, 1}}, true};
  for (const Case& c : {blocked, odd}) {
    const Answer expected = run(c, Backend::kReference);
    for (const KernelChoice& choice :
         {KernelChoice{"direct", 2, 1}, KernelChoice{"direct", 1, 1}, KernelChoice{"direct", 1, 2},
          KernelChoice{"direct", 5, 4}, KernelChoice{"direct", 1, 3}, KernelChoice{"winograd", 4, 1}}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        const ForcedChoice forward(c, "forward", choice, dtype);
        const ForcedChoice data(c, "backward_data", choice, dtype);
        const ForcedChoice weights(c, "backward_weights", choice, dtype);
        expect_close(run(c, Backend::kCpu, dtype), expected, dtype == DType::kF32 ? 2e-5 : 1e-2,
                     dlpipe::concat(c.name, " ", choice.kernel, " ", choice.images, " ", choice.parts, " ",
                                    dtype_name(dtype)));
      }
    }
  }
}

/// As run(), with relu by one op or by two, and a NaN in x.
Answer run_relu(const Case& c, DType dtype, bool together) {
  Tensor values = noise(c.x, 1);
  values.data<float>()[values.elements() / 2] = NAN;
  Tensor x = cast(values, dtype).detach().set_requires_grad(true);
  Tensor weight = cast(noise(c.weight, 2), dtype).detach().set_requires_grad(true);
  Tensor bias = c.bias ? cast(noise({c.weight[0]}, 3), dtype).detach().set_requires_grad(true) : Tensor();
  Conv2dAttrs attrs = c.attrs;
  attrs.activation = together ? Activation::kRelu : Activation::kNone;
  const Tensor out = conv2d(x, weight, bias, attrs);
  const Tensor y = together ? out : relu(out);
  y.backward(cast(noise(y.shape(), 4), dtype));
  return {plain(y.detach()), x.grad(), weight.grad(), c.bias ? bias.grad() : Tensor()};
}

TEST(Conv2dOp, WithReluGivesTheBitsOfTwoOps) {
  std::vector<Case> all = cases();
  // More than a slice's output that is activated while it lies in the cache.
  all.push_back({"large slices", {4, 48, 48, 16}, {64, 16, 3, 3}, {.padding = {1, 1}}, true});
  all.push_back({"large slices of odd channels", {2, 90, 90, 5}, {35, 5, 3, 3}, {}, true});
  for (const Case& c : all) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const auto expect_same = [&](const char* kernel) {
        const Answer got = run_relu(c, dtype, true);
        EXPECT_TRUE(same_bits(got, run_relu(c, dtype, false)))
            << c.name << ", " << dtype_name(dtype) << ", " << kernel;
        const std::vector<double> y = got.y.to_doubles();
        EXPECT_TRUE(std::any_of(y.begin(), y.end(), [](double value) { return std::isnan(value); }))
            << c.name;
      };
      expect_same("the rule's");
      for (const KernelChoice& choice : {KernelChoice{"direct", 4, 1}, KernelChoice{"direct", 1, 2},
                                         KernelChoice{cpu::kOwnWinograd, 2, 2}}) {
        if (choice.kernel == cpu::kOwnWinograd && !cpu::winograd_fits(shape_of(c))) continue;
        const ForcedChoice forward(c, "forward", choice, dtype);
        expect_same(choice.kernel.c_str());
      }
    }
  }
}

TEST(Conv2dOp, GivesTheSameBitsOnAnyNumberOfThreads) {
  const std::vector<Case> several = {
      {"batch", {12, 16, 16, 32}, {32, 32, 3, 3}, {.padding = {1, 1}}, true},
      {"one image, blocked", {1, 20, 20, 64}, {64, 64, 3, 3}, {.padding = {1, 1}}, true},
      {"one image, plain", {1, 40, 40, 30}, {30, 30, 3, 3}, {.padding = {1, 1}}, true},
      {"deep", {4, 4, 4, 256}, {256, 256, 3, 3}, {.padding = {1, 1}}, true},
      {"stem", {4, 64, 64, 3}, {32, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}, false},
  };
  const int former = engine_threads();
  for (const Case& c : several) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      set_engine_threads(1);
      const Answer one = run(c, Backend::kCpu, dtype);
      for (int threads : {2, 3, 8}) {
        set_engine_threads(threads);
        EXPECT_TRUE(same_bits(run(c, Backend::kCpu, dtype), one)) << c.name << ", " << threads << " threads";
      }
    }
  }
  set_engine_threads(former);
}

// Inference chooses for one image. Training neither gets its plans nor finds its choices in the table.
TEST(Conv2dOp, StepsAndAnswersHaveKernelsOfTheirOwn) {
  const Tensor x = noise({8, 7, 7, 64}, 1), weight = noise({64, 64, 3, 3}, 2);
  const auto answer = [&] { return plain(conv2d(x, weight, Tensor(), {.padding = {1, 1}})); };
  const auto bits = [](const Tensor& y) {
    return std::string(static_cast<const char*>(y.raw()), y.size_bytes());
  };
  kernel_table().clear();
  const std::string step = bits(answer());
  const std::string table = kernel_table().save();
  for (const bool step_first : {true, false}) {
    kernel_table().clear();
    if (step_first) {
      EXPECT_EQ(bits(answer()), step);
    }
    {
      const InferenceMode mode;
      const Tensor all = answer();
      const Tensor one = plain(conv2d(slice(x, 0, 0, 1), weight, Tensor(), {.padding = {1, 1}}));
      EXPECT_EQ(bits(all).substr(0, one.size_bytes()), bits(one));
    }
    EXPECT_EQ(bits(answer()), step);
    if (step_first) {
      EXPECT_EQ(kernel_table().save(), table);
    }
  }
  kernel_table().clear();
}

TEST(Conv2dOp, AnEmptyBatchHasEmptyOutputsAndZeroGradients) {
  const Case empty = {"", {0, 5, 5, 8}, {8, 8, 3, 3}, {.padding = {1, 1}}, true};
  const Answer answer = run(empty, Backend::kCpu);
  EXPECT_EQ(answer.y.shape(), (Shape{0, 5, 5, 8}));
  for (double value : answer.dweight.to_doubles()) EXPECT_EQ(value, 0.0);
  for (double value : answer.dbias.to_doubles()) EXPECT_EQ(value, 0.0);
}

TEST(Conv2dOp, MemoryStaysFlatOverManySteps) {
  const Case c = {"", {8, 12, 12, 16}, {32, 16, 3, 3}, {.padding = {1, 1}}, true};
  const auto held = [] {
    return allocator_statistics().used_bytes + allocator_statistics().cached_bytes + kernel_table().size();
  };
  for (int step = 0; step < 5; ++step) run(c, Backend::kCpu);
  const size_t before = held();
  const size_t scratch = worker_scratch_bytes();
  for (int step = 0; step < 100; ++step) run(c, Backend::kCpu);
  EXPECT_EQ(held(), before);
  // A worker that had no slice before may have taken one: its scratch is as large as the others'.
  EXPECT_LE(worker_scratch_bytes(), scratch * static_cast<size_t>(engine_threads()));
}

void expect_error(const Case& c, const std::string& text) {
  try {
    conv2d(noise(c.x, 1), noise(c.weight, 2), Tensor(), c.attrs);
    FAIL() << "no error; expected: " << text;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    EXPECT_EQ(error.code(), ErrorCode::kMisuse);
  }
}

TEST(Conv2dOp, SaysWhatIsWrongWithItsInputs) {
  expect_error({"", {2, 5, 5}, {4, 3, 3, 3}, {}}, "[conv2d] expected floating images [N,H,W,C]");
  expect_error({"", {2, 5, 5, 3}, {4, 2, 3, 3}, {}}, "expected weights of 3 input channels");
  expect_error({"", {2, 5, 5, 3}, {4, 3, 7, 7}, {}}, "expected images that the kernel fits into");
  expect_error({"", {2, 5, 5, 4}, {4, 2, 3, 3}, {.groups = 3}}, "expected groups that divide 4");
  expect_error({"", {2, 5, 5, 3}, {4, 3, 3, 3}, {.stride = {0, 1}}},
               "expected stride and dilation of at least 1");
  expect_error({"", {2, 5, 5, 3}, {4, 3, 3, 3}, {.activation = Activation::kGelu}},
               "expected no activation or relu, got gelu");
}

}  // namespace
}  // namespace dlpipe::engine
