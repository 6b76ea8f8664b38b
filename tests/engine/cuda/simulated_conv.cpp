// The simulated grid has no library of convolutions: conv2d takes its own kernels, unless a test asks for the plain loops here.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/cuda/cudnn/cudnn_conv.h"
#include "engine/cuda/grid/elements.h"
#include "engine/cuda/kernels/im2col.h"
#include "tests/engine/cuda/simulated.h"

namespace dlpipe::engine {

static thread_local SimulatedConvolutions* t_convolutions = nullptr;

SimulatedConvolutions::SimulatedConvolutions() {
  t_convolutions = this;
}
SimulatedConvolutions::~SimulatedConvolutions() {
  t_convolutions = nullptr;
}

namespace cuda {
namespace {

/// Calls use(index of the image's element, of the weight, of the output) for each product of the convolution.
template <class Use>
void each_product(const Conv2dShape& s, const Use& use) {
  const int64_t outputs = s.n * s.oh * s.ow * s.o, taps = s.kh * s.kw;
  for (int64_t out = 0; out < outputs; ++out) {
    const int64_t o = out % s.o, window = out / s.o, image = window / (s.oh * s.ow);
    const int64_t first = o / s.o_group() * s.c_group();  // channel
    each_tap(s, static_cast<int>(window / s.ow % s.oh), static_cast<int>(window % s.ow),
             [&](int64_t tap, int64_t pixel) {
               for (int64_t c = 0; c < s.c_group(); ++c)
                 use((image * s.h * s.w + pixel) * s.c + first + c, (o * taps + tap) * s.c_group() + c, out);
             });
  }
}

template <class T>
void compute(const Convolution& c) {
  const Conv2dShape& s = c.shape;
  auto* const images = static_cast<T*>(c.images);
  auto* const weights = static_cast<T*>(c.weights);
  auto* const outputs = static_cast<T*>(c.outputs);
  const bool is_forward = c.pass == ConvPass::kForward, is_of_images = c.pass == ConvPass::kImageGradient;
  T* const to = is_forward ? outputs : is_of_images ? images : weights;
  const int64_t count = is_forward     ? s.n * s.oh * s.ow * s.o
                        : is_of_images ? s.n * s.h * s.w * s.c
                                       : s.weights();
  std::vector<float> sums(static_cast<size_t>(count), 0.0f);
  each_product(s, [&](int64_t image, int64_t weight, int64_t output) {
    const auto at = static_cast<size_t>(is_forward ? output : is_of_images ? image : weight);
    const float left = is_of_images ? widened(weights[weight]) : widened(images[image]);
    sums[at] += left * (is_forward ? widened(weights[weight]) : widened(outputs[output]));
  });
  for (int64_t i = 0; i < count; ++i) {
    float sum = sums[static_cast<size_t>(i)];
    if (c.bias != nullptr) sum += widened(static_cast<const T*>(c.bias)[i % s.o]);
    if (c.accumulate) sum += widened(to[i]);
    if (c.relu && !std::isnan(sum)) sum = std::max(sum, 0.0f);
    to[i] = narrowed<T>(sum);
  }
}

}  // namespace

inline namespace simulated {

bool has_convolutions() {
  return t_convolutions != nullptr;
}

bool convolve(const Convolution& convolution) {
  if (t_convolutions == nullptr) return false;
  t_convolutions->note(convolution.shape.c, convolution.dtype);
  stored(convolution.dtype, [&](auto type) { compute<decltype(type)>(convolution); });
  return true;
}

}  // namespace simulated
}  // namespace cuda
}  // namespace dlpipe::engine
