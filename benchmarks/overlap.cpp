// How well do decoding and training share the cores? Three cases in one process, each interleaving windows of
//   cached    training steps on one batch that is already there
//   pipeline  the same steps on batches that are decoded meanwhile
//   decode    the same number of batches without a trainer
// and printing
//   over ideal   pipeline wall time / ((decode core-seconds + cached core-seconds) / cores)
//   over cached  pipeline wall time / cached wall time
// The first tells how much is lost where decoding costs as much as training, the second where it is cheap.
//
//   overlap_benchmark [ROUNDS]     draws its own JPEGs into a temporary folder; about half a minute per round
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/counters.h"
#include "base/machine.h"
#include "dlpipe/loader.h"
#include "dlpipe/models.h"
#include "dlpipe/optim.h"
#include "drawn_data.h"
#include "engine/core/parallel.h"
#include "run/input/batch_input.h"
#include "run/train/step/train_step.h"

namespace {

using namespace dlpipe;  // NOLINT: a program of one file

struct Case {
  const char* name;
  int jpeg_side;  // of the files
  const char* augment;
  const char* model;
  int64_t size;  // of what the model gets
  int64_t batch;
  int64_t steps;  // a window
  DType dtype = DType::kF32;
};

struct Cost {
  double wall_s = 0;
  double cpu_s = 0;
};

class Watch {
 public:
  Watch() : begin_ns_(now_ns()), begin_cpu_s_(process_cpu_seconds()) {}
  Cost read() const {
    return {static_cast<double>(now_ns() - begin_ns_) * 1e-9, process_cpu_seconds() - begin_cpu_s_};
  }

 private:
  int64_t begin_ns_;
  double begin_cpu_s_;
};

// Until every slot is full and the workers sleep: a window that begins here and ends here has decoded as many
// batches as it has consumed.
void let_slots_fill() {
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run_case(const Case& c, const std::string& folder, int rounds, int cores) {
  const engine::ModelArguments arguments{10, 3, c.size, c.size, 1};
  const auto model = value_or_throw(engine::ModelRegistry::builtin().find(c.model))->build(arguments);
  const auto optimizer = value_or_throw(engine::find_optimizer("sgd"))->build(model->parameters(), {});
  run::TrainStepOptions options;
  options.loss = value_or_throw(run::find_loss("cross_entropy"));
  options.dtype = c.dtype;
  const auto step = run::TrainStep::create(*model, *optimizer, nullptr, options);
  pipeline::LoaderOptions loader_options;
  loader_options.data = folder + "/" + std::to_string(c.jpeg_side);
  make_drawn_data(loader_options.data, 100, c.jpeg_side);
  loader_options.augment = c.augment;
  loader_options.batch = c.batch;
  loader_options.threads = cores;
  const auto loader = value_or_throw(pipeline::Loader::open(loader_options));
  const auto cached = run::CachedBatch::random(c.batch, {c.size, c.size, 3}, 10, 1);

  constexpr double kRate = 1e-4;
  const auto train = [&](BatchSource& source, int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      step->run(source, i, kRate);
      step->take_outcome();
    }
  };
  const auto decode = [&](int64_t batches) {
    for (int64_t i = 0; i < batches; ++i) {
      const auto batch = value_or_throw(loader->next());
      throw_if_error(loader->release(*batch));
    }
  };
  constexpr int64_t kWarmUp = 5;  // more than the slots
  std::vector<double> over_ideal;
  std::vector<double> over_cached;
  for (int round = 0; round < rounds; ++round) {
    let_slots_fill();
    train(*cached, 2);
    const Watch cached_watch;
    train(*cached, c.steps);
    const Cost cached_cost = cached_watch.read();

    train(*loader, kWarmUp);
    const Watch pipeline_watch;
    train(*loader, c.steps);
    const Cost pipeline_cost = pipeline_watch.read();

    let_slots_fill();
    const Watch decode_watch;
    decode(c.steps);
    let_slots_fill();
    const Cost decode_cost = decode_watch.read();

    const double ideal_s = (decode_cost.cpu_s + cached_cost.cpu_s) / cores;
    over_ideal.push_back(pipeline_cost.wall_s / ideal_s);
    over_cached.push_back(pipeline_cost.wall_s / cached_cost.wall_s);
    std::printf(
        "%-28s round %d: cached %.2f s (%.2f core-s), decode %.2f core-s, pipeline %.2f s: %.3f over ideal, "
        "%.3f over cached\n",
        c.name, round + 1, cached_cost.wall_s, cached_cost.cpu_s, decode_cost.cpu_s, pipeline_cost.wall_s,
        over_ideal.back(), over_cached.back());
    std::fflush(stdout);
  }
  std::printf("%-28s median of %d: %.3f over ideal, %.3f over cached\n", c.name, rounds, median(over_ideal),
              median(over_cached));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  const int cores = available_threads();
  engine::set_engine_threads(cores);
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("dlpipe_overlap_" + std::to_string(now_ns()))).string();
  std::filesystem::create_directories(folder);
  std::printf("%s, %d threads\n", cpu_model().c_str(), cores);
  int result = 0;
  try {
    run_case({"decoding costs (400 px JPEG)", 400, "rrc(32) hflip", "lenet", 32, 64, 40}, folder, rounds,
             cores);
    run_case({"decoding is cheap (32 px)", 32, "pad_crop(32,4) hflip", "cifarnet", 32, 64, 20}, folder,
             rounds, cores);
    run_case({"ResNet-18 in bf16 (500 px)", 500, "rrc(224) hflip", "resnet18", 224, 32, 12, DType::kBF16},
             folder, rounds, cores);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    result = 1;
  }
  std::filesystem::remove_all(folder);
  return result;
}
