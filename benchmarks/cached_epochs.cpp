// What does a cache of coefficient records (`dlpipe train --cache coefficients`) give epochs 1, 2 and 3 on a folder of JPEGs that
// nobody ingested? The folder is linked; then loaders without and with a cache, which is empty at the start, give three epochs of
// rrc(224) hflip in turn to a consumer that
//   takes     every batch at once: the loader limits, and its threads never wait
//   sleeps    after each one four times as long as the loader takes to make one, as for an accelerator: the loader is ahead
//   trains    resnet18 in bf16 on crops of 96 pixels, on the same cores
//   resumes   as takes, with a cache that has all images already, as a run that goes on finds it
// and each line has images per second, CPU time of the process per image, and the share that came from the cache: medians of
// the rounds.
//
//   cached_epochs FOLDER [ROUNDS]     FOLDER of JPEGs by class; `dlpipe synth FOLDER --per-class 100 --size 400..640` draws some
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "base/counters.h"
#include "base/machine.h"
#include "base/text.h"
#include "dlpipe/ingest.h"
#include "dlpipe/loader.h"
#include "dlpipe/models.h"
#include "dlpipe/optim.h"
#include "engine/core/parallel.h"
#include "run/train/step/train_step.h"

namespace {

using namespace dlpipe;  // NOLINT: a program of one file

constexpr int kEpochs = 3;

struct Row {
  double rate_img_s = 0;
  double cpu_ms = 0;
  double share = 0;  // from the cache
};
using Rows = std::vector<Row>;  // of the epochs

/// Takes a batch of the source and gives it back.
using Consumer = std::function<void(pipeline::Loader&, int64_t batch)>;

void take(pipeline::Loader& loader) {
  const auto batch = value_or_throw(loader.next());
  throw_if_error(loader.release(*batch));
}

Rows three_epochs(const pipeline::LoaderOptions& options, const Consumer& consume) {
  const auto loader = value_or_throw(pipeline::Loader::open(options));
  const int64_t batches = loader->batches_per_epoch();
  const auto samples = static_cast<double>(batches * options.batch);
  Rows rows;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const int64_t begin_ns = now_ns();
    const double begin_cpu_s = process_cpu_seconds();
    const int64_t taken = loader->stats().cache.taken;
    for (int64_t i = 0; i < batches; ++i) consume(*loader, epoch * batches + i);
    const double wall_s = static_cast<double>(now_ns() - begin_ns) * 1e-9;
    rows.push_back({samples / wall_s, 1e3 * (process_cpu_seconds() - begin_cpu_s) / samples,
                    static_cast<double>(loader->stats().cache.taken - taken) / samples});
  }
  return rows;
}

double median_of(const std::vector<Rows>& rounds, size_t epoch, double Row::*number) {
  std::vector<double> values;
  values.reserve(rounds.size());
  for (const Rows& rows : rounds) values.push_back(rows[epoch].*number);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Reads an epoch and waits for its records.
void fill(const pipeline::LoaderOptions& options) {
  const auto loader = value_or_throw(pipeline::Loader::open(options));
  for (int64_t i = 0; i < loader->batches_per_epoch(); ++i) take(*loader);
  CacheStats before;
  CacheStats now = loader->stats().cache;
  do {
    before = now;
    std::this_thread::sleep_for(std::chrono::seconds(1));
    now = loader->stats().cache;
  } while (now.records > before.records);
}

class Contest {
 public:
  Contest(std::string folder, std::string linked, int rounds)
      : folder_(std::move(folder)), linked_(std::move(linked)), rounds_(rounds) {}

  /// A consumer is made for each loader: a trainer begins anew.
  void run(const char* name, const char* augment, const std::function<Consumer()>& make_consumer,
           bool begins_filled = false) {
    std::vector<Rows> with[2];
    for (int round = 0; round < rounds_; ++round) {
      for (const bool cached : {false, true}) {
        pipeline::LoaderOptions options;
        options.data = linked_;
        options.augment = augment;
        options.batch = 32;
        options.threads = available_threads();
        if (cached) options.cache = concat(folder_, "/cache-", caches_++);
        if (cached && begins_filled) fill(options);
        with[cached ? 1 : 0].push_back(three_epochs(options, make_consumer()));
      }
    }
    for (const bool cached : {false, true}) {
      for (size_t epoch = 0; epoch < kEpochs; ++epoch) {
        const std::vector<Rows>& rounds = with[cached ? 1 : 0];
        std::printf("| %s | %s | %zu | %.0f | %.2f | %.0f %% |\n", name, cached ? "coefficients" : "none",
                    epoch + 1, median_of(rounds, epoch, &Row::rate_img_s),
                    median_of(rounds, epoch, &Row::cpu_ms), 100 * median_of(rounds, epoch, &Row::share));
      }
    }
    std::fflush(stdout);
  }

 private:
  std::string folder_;
  std::string linked_;
  int rounds_;
  int caches_ = 0;
};

/// How long the loader takes to make a batch, once files are in the page cache.
double batch_seconds(const std::string& linked, const char* augment) {
  pipeline::LoaderOptions options;
  options.data = linked;
  options.augment = augment;
  options.batch = 32;
  options.threads = available_threads();
  const Rows rows = three_epochs(options, [](pipeline::Loader& loader, int64_t) { take(loader); });
  return static_cast<double>(options.batch) / rows.back().rate_img_s;
}

Consumer trainer() {
  struct Training {
    std::shared_ptr<engine::Module> model;
    std::unique_ptr<engine::Optimizer> optimizer;
    std::unique_ptr<run::TrainStep> step;
  };
  const auto training = std::make_shared<Training>();
  const engine::ModelArguments arguments{10, 3, 96, 96, 1};
  training->model = value_or_throw(engine::ModelRegistry::builtin().find("resnet18"))->build(arguments);
  training->optimizer =
      value_or_throw(engine::find_optimizer("sgd"))->build(training->model->parameters(), {});
  run::TrainStepOptions options;
  options.loss = value_or_throw(run::find_loss("cross_entropy"));
  options.dtype = DType::kBF16;
  training->step = run::TrainStep::create(*training->model, *training->optimizer, nullptr, options);
  return [training](pipeline::Loader& loader, int64_t batch) {
    constexpr double kRate = 1e-4;
    training->step->run(loader, batch, kRate);
    training->step->take_outcome();
  };
}

void compare(const std::string& images, const std::string& folder, int rounds) {
  ingest::IngestOptions link;
  link.sources = {images};
  link.destination = folder + "/linked";
  link.store = ingest::Store::kLink;
  link.late_checksums = true;
  value_or_throw(ingest::ingest(link));
  std::printf(
      "| consumer | cache | epoch | images/s | CPU ms per image | from the cache "
      "|\n|---|---|---|---|---|---|\n");
  constexpr const char* kCrops = "rrc(224) hflip";
  const double sleep_s = batch_seconds(link.destination, kCrops);
  Contest contest(folder, link.destination, rounds);
  contest.run("takes", kCrops, [] { return [](pipeline::Loader& loader, int64_t) { take(loader); }; });
  contest.run("sleeps", kCrops, [&] {
    return [&](pipeline::Loader& loader, int64_t) {
      take(loader);
      std::this_thread::sleep_for(std::chrono::duration<double>(4 * sleep_s));
    };
  });
  contest.run("trains", "rrc(96) hflip", trainer);
  contest.run(
      "resumes", kCrops, [] { return [](pipeline::Loader& loader, int64_t) { take(loader); }; }, true);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "cached_epochs FOLDER [ROUNDS]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 3;
  engine::set_engine_threads(available_threads());
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("dlpipe_cached_" + std::to_string(now_ns()))).string();
  std::filesystem::create_directories(folder);
  std::printf("%s, %d threads\n\n", cpu_model().c_str(), available_threads());
  int result = 0;
  try {
    compare(argv[1], folder, rounds);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    result = 1;
  }
  std::filesystem::remove_all(folder);
  return result;
}
