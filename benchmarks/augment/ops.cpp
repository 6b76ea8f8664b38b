// How fast is an augmentation, on one thread? For each line WIDTH HEIGHT EXPRESSION of standard input prints the processor
// time of one image in microseconds: the least of five rounds. `run` asks it and other people's libraries by turns.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "dlpipe/augment.h"

namespace {

double processor_us() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// Slopes with noise, as photographs have.
std::vector<uint8_t> make_image(int width, int height) {
  std::vector<uint8_t> pixels(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height));
  dlpipe::RandomStream random(1, 1);
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t x = i / 3 % static_cast<size_t>(width);
    const size_t y = i / 3 / static_cast<size_t>(width);
    pixels[i] = static_cast<uint8_t>((x + y + i % 3 * 40 + random.below(32)) % 256);
  }
  return pixels;
}

}  // namespace

int main() {
  using namespace dlpipe;           // NOLINT
  using namespace dlpipe::augment;  // NOLINT
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    int width = 0, height = 0;
    std::string expression;
    words >> width >> height;
    std::getline(words, expression);
    const Chain chain = value_or_throw(Chain::parse(expression));
    const std::vector<uint8_t> source = make_image(width, height);
    ChainPlan plan;
    ChainScratch scratch;
    std::vector<uint8_t> out;
    int64_t position = 0;
    const auto once = [&] {
      throw_if_error(chain.plan({width, height, 3}, {.seed = 1, .position = position++}, plan));
      out.resize(size_t{3} * static_cast<size_t>(plan.out.width) * static_cast<size_t>(plan.out.height));
      const Region& r = plan.source_region;
      const ptrdiff_t stride = ptrdiff_t{3} * width;
      throw_if_error(chain.apply(
          plan, {source.data() + r.y * stride + ptrdiff_t{3} * r.x, r.width, r.height, 3, stride},
          {out.data(), plan.out.width, plan.out.height, 3, ptrdiff_t{3} * plan.out.width}, scratch));
    };
    once();
    double least = 1e30;
    for (int round = 0; round < 5; ++round) {
      int calls = 0;
      const double begin = processor_us();
      double spent = 0;
      for (; spent < 10e3 || calls < 3; spent = processor_us() - begin) once(), ++calls;
      least = std::min(least, spent / calls);
    }
    std::printf("%.3f\n", least);
    std::fflush(stdout);
  }
}
