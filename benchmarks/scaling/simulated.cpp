// What do more ranks cost a step, whatever the network and however many cores there are? 1, 2, 4 and 8 ranks train the same run:
// threads of one process with one computing thread each, over engine/collective's simulated backend, whose messages take no time.
// Steps are ResNet-18's at 32 pixels, 64 samples in 8 grains. The ranks share this machine's cores, so a step takes what all of them
// compute; what it would take with a core for each is asked of the CPU time and of the ledgers:
//   work     CPU time of a step of one rank / that of all ranks. With a core for each rank and a network that takes no time,
//            n ranks would be `work` x n times as fast
//   ledger   spans of training that compute, and waiting for sums, as shares of the training time; a mean over the ranks
//   hidden   the share of what the communication threads did that backward hid
//
//   simulated_ranks [ROUNDS] [STEPS]   # default 3 and 10
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../drawn_data.h"
#include "base/counters.h"
#include "base/machine.h"
#include "dlpipe/session.h"
#include "engine/collective/collective.h"
#include "engine/collective/simulated.h"

namespace {

using namespace dlpipe;  // NOLINT: a program of one file

constexpr int64_t kWarmUp = 2;
constexpr int kWorlds[] = {1, 2, 4, 8};

/// Wall and CPU time of the steps after the first ones, of the whole process.
class StepWatch : public run::TrainObserver {
 public:
  void on_step(int64_t step, double) override {
    if (step == kWarmUp) {
      begin_ns_ = now_ns();
      begin_cpu_s_ = process_cpu_seconds();
    }
    if (step > kWarmUp) {
      wall_ms = static_cast<double>(now_ns() - begin_ns_) * 1e-6 / static_cast<double>(step - kWarmUp);
      cpu_ms = (process_cpu_seconds() - begin_cpu_s_) * 1e3 / static_cast<double>(step - kWarmUp);
    }
  }
  double wall_ms = 0;  // of a step
  double cpu_ms = 0;

 private:
  int64_t begin_ns_ = 0;
  double begin_cpu_s_ = 0;
};

struct Measured {
  double wall_ms = 0;
  double cpu_ms = 0;
  double computing = 0;  // shares
  double waiting = 0;
  double hidden = 0;
  double sent_mb = 0;  // per rank and step
  uint64_t parameters_chain = 0;
};

run::TrainConfig config_of(const std::string& data, const std::string& out, int64_t steps) {
  run::TrainConfig config;
  config.data = data;
  config.out = out;
  config.model = "resnet18_cifar";
  config.augment = "rrc(32)";
  config.batch = 64;
  config.grains = 8;
  config.threads = 1;
  config.max_steps = steps;
  config.epochs = 1'000'000;
  config.seed = 1;
  config.schedule = "constant";
  config.lr = 0.001;
  config.kernels = "rules";
  config.val_every = "never";
  config.checkpoint_every = "never";
  return config;
}

void add(const run::TrainOutcome& outcome, int world, Measured& sum) {
  const LedgerEntry& ledger = outcome.ledger;
  const auto span = [&](Span one) { return static_cast<double>(ledger.span_ns[static_cast<size_t>(one)]); };
  const auto training = static_cast<double>(ledger.training_ns());
  sum.computing += (span(Span::kForward) + span(Span::kBackward) + span(Span::kOptimizer)) / training / world;
  sum.waiting += span(Span::kCollective) / training / world;
  const run::StageReport stages = outcome.stages();
  if (stages.communication) sum.hidden += stages.communication->hidden_share() / world;
  sum.sent_mb +=
      static_cast<double>(outcome.collective.bytes_sent) / static_cast<double>(outcome.steps) / 1e6 / world;
}

Measured train(const std::string& data, const std::string& out, int world, int64_t steps) {
  engine::SimulatedNetwork network(world, {});
  Measured measured;
  StepWatch watch;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto ranks =
            value_or_throw(engine::Collective::create([&] { return network.transport(rank); }));
        run::Session session(config_of(data, out, steps), {}, rank == 0 ? &watch : nullptr,
                             world == 1 ? nullptr : ranks.get());
        const run::TrainOutcome outcome = session.train();
        const std::lock_guard lock(mutex);
        add(outcome, world, measured);
        if (rank == 0) measured.parameters_chain = outcome.parameters_chain;
        throw_if_error(ranks->close());
      } catch (const Error& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        std::exit(1);  // the others would wait for it
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  measured.wall_ms = watch.wall_ms;
  measured.cpu_ms = watch.cpu_ms;
  return measured;
}

template <class Of>
double median(const std::vector<Measured>& rounds, const Of& of) {
  std::vector<double> values;
  for (const Measured& one : rounds) values.push_back(of(one));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const std::string& folder, int rounds, int64_t steps) {
  const std::string data = folder + "/data";
  make_drawn_data(data, 16, 40);

  std::vector<std::vector<Measured>> of_world(std::size(kWorlds));
  for (int round = 0; round < rounds; ++round)
    for (size_t w = 0; w < std::size(kWorlds); ++w)
      of_world[w].push_back(
          train(data, folder + "/run" + std::to_string(round) + "_" + std::to_string(w), kWorlds[w], steps));
  std::printf(
      "| ranks | step, ms | CPU of all ranks, ms | work | computing | waiting for sums | hidden | MB sent | "
      "same weights |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|\n");
  const std::vector<Measured>& alone = of_world.front();
  for (size_t w = 0; w < std::size(kWorlds); ++w) {
    std::vector<Measured> ratios = of_world[w];
    for (int round = 0; round < rounds; ++round)
      ratios[round].cpu_ms = alone[round].cpu_ms / ratios[round].cpu_ms;
    const bool same = std::all_of(of_world[w].begin(), of_world[w].end(), [&](const Measured& one) {
      return one.parameters_chain == alone.front().parameters_chain;
    });
    const auto shown = [&](const auto& of) { return median(of_world[w], of); };
    std::printf("| %d | %.0f | %.0f | %.2f | %.0f %% | %.0f %% | %.0f %% | %.1f | %s |\n", kWorlds[w],
                shown([](const Measured& one) { return one.wall_ms; }),
                shown([](const Measured& one) { return one.cpu_ms; }),
                median(ratios, [](const Measured& one) { return one.cpu_ms; }),
                1e2 * shown([](const Measured& one) { return one.computing; }),
                1e2 * shown([](const Measured& one) { return one.waiting; }),
                1e2 * shown([](const Measured& one) { return one.hidden; }),
                shown([](const Measured& one) { return one.sent_mb; }), same ? "yes" : "NO");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
  const int64_t steps = argc > 2 ? std::max(kWarmUp + 2, std::atol(argv[2])) : 10;
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("dlpipe_simulated_" + std::to_string(now_ns()))).string();
  std::filesystem::create_directories(folder);
  std::printf("%s, %d threads; median of %d rounds of %ld steps, the first %ld not counted\n\n",
              cpu_model().c_str(), available_threads(), rounds, static_cast<long>(steps),
              static_cast<long>(kWarmUp));
  int result = 0;
  try {
    measure(folder, rounds, steps);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    result = 1;
  }
  std::filesystem::remove_all(folder);
  return result;
}
