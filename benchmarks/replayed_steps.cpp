// What does a training step on the CPU save when its passes are replayed (--compile) instead of run as they are? Milliseconds
// of a step both ways, in turns in one process, and the memory of what a pass computes: for an MLP of 784-100-10, a
// character GPT, ResNet-18 at 32 pixels and ResNet-50, as static and dynamic graphs are usually compared.
//
//   replayed_steps [SECONDS] [THREADS]   # of measuring, each way and model; default 5 seconds, all threads
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/run/bench/bench_train.h"

namespace dlpipe {
namespace {

std::shared_ptr<engine::Module> build_small_mlp(const engine::ModelArguments& arguments) {
  const int64_t pixels = arguments.height * arguments.width * arguments.channels;
  auto model = std::shared_ptr<engine::Sequential>(new engine::Sequential{
      {"flatten", std::make_shared<engine::Flatten>()},
      {"fc1", std::make_shared<engine::Linear>(pixels, 100)},
      {"relu", std::make_shared<engine::ReLU>()},
      {"fc2", std::make_shared<engine::Linear>(100, arguments.classes)},
  });
  engine::initialize(*model, arguments.seed);
  return model;
}
const engine::ModelRecord kSmallMlp = {"mlp_784_100_10", "two linear layers, 100 hidden units, ReLU", 28,
                                       build_small_mlp, "fc2."};

struct Case {
  const char* model;
  int64_t batch, size, channels;
};
constexpr Case kCases[] = {{"mlp_784_100_10", 1, 28, 1},  {"mlp_784_100_10", 64, 28, 1},
                           {"lenet", 64, 32, 1},          {"gpt_char_tiny", 8, 0, 3},
                           {"gpt_char", 4, 0, 3},         {"resnet18_cifar", 1, 32, 3},
                           {"resnet18_cifar", 32, 32, 3}, {"resnet50", 8, 224, 3}};

void measure(const Case& c, double seconds, int threads, const run::Registries& registries) {
  run::BenchTrainOptions options;
  options.model = c.model;
  options.batch = c.batch;
  options.size = c.size;
  options.channels = c.channels;
  options.seconds = seconds;
  options.threads = threads;
  options.compile = true;
  const run::BenchTrainReport report = run::bench_train(options, registries);
  const run::ReplayedSteps& replayed = *report.replayed;
  if (!replayed.reason.empty()) {
    std::printf("%-16s %5ld  not replayed: %s\n", c.model, static_cast<long>(c.batch),
                replayed.reason.c_str());
    return;
  }
  const auto mib = [](size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::printf("%-16s %5ld %10.3f %10.3f %8.3f %8zu %10.2f %10.2f\n", c.model, static_cast<long>(c.batch),
              report.step_ms, replayed.times.step_ms, report.step_ms / replayed.times.step_ms,
              replayed.memory.kernels, mib(replayed.memory.eager_bytes), mib(replayed.memory.arena_bytes));
  std::fflush(stdout);
}

int compare_all(double seconds, int threads) {
  run::Registries registries;
  registries.models.add(kSmallMlp);
  std::printf("%s, %d threads, f32, sgd; medians of steps, %g s each way, in turns\n", cpu_model().c_str(),
              threads == 0 ? available_threads() : threads, seconds);
  std::printf("%-16s %5s %10s %10s %8s %8s %10s %10s\n", "model", "batch", "eager ms", "replay ms", "ratio",
              "calls", "eager MiB", "arena MiB");
  for (const Case& c : kCases) measure(c, seconds, threads, registries);
  return 0;
}

}  // namespace
}  // namespace dlpipe

int main(int count, char** arguments) {
  try {
    return dlpipe::compare_all(count > 1 ? std::atof(arguments[1]) : 5,
                               count > 2 ? std::atoi(arguments[2]) : 0);
  } catch (const dlpipe::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
