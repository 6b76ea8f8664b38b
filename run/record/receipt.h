// The receipt of a run: its inputs and results, so that "did I get the same run?" is one comparison.
//
// It contains only what two equal runs share: no times, no threads, no paths. batches_chain covers every batch consumed (record
// checksums and drawn parameters; also pixels with --receipt pixels). parameters_chain covers the weights at the end of every
// epoch and of the run. metrics.jsonl also has it after every epoch, so that a run can be recognised as the beginning of a longer
// one.
// Values; pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/error.h"
#include "io/formats/json.h"

namespace dlpipe::run {

struct Receipt {
  std::string dataset_id;
  std::string pipeline_id;
  std::string subset;  // of --limit, "300 of 1,280 samples, by seed 3"; empty: all samples
  int64_t seed = 0;
  std::string build;
  std::string isa;           // or the GPU
  std::string kernels_hash;  // of kernels.json
  std::string model;
  std::string dtype;
  bool tf32 = false;  // used for f32: false on the host
  int64_t steps = 0;
  int64_t samples = 0;
  bool finished = false;  // false: stopped before the configured end
  std::string batches_chain;
  std::string parameters_chain;
  int64_t grains = 1;             // of each batch
  bool sync_bn = false;           // batch norm over all grains
  std::string compress = "none";  // what the grains' gradients were rounded to
  bool exact = true;              // summed along one tree; else in NCCL's order
  int64_t tensor_parallel = 1;    // processes among which weights were split
  int64_t pipeline_parallel = 1;  // processes among which layers were split

  friend bool operator==(const Receipt&, const Receipt&) = default;
};

formats::Json to_json(const Receipt& receipt);
/// receipt.json of a run directory.
Result<Receipt> read_receipt(const std::string& run_directory);

struct ReceiptDifference {
  std::string field;
  std::string first;
  std::string second;
};

struct RunDifference {
  /// Options of config.toml that differ, except --out; data and val only if the datasets differ.
  std::vector<ReceiptDifference> options;
  std::vector<ReceiptDifference> receipt;
  /// First step whose line in metrics.jsonl differs (or that one run lacks); -1: none.
  int64_t first_step = -1;
  std::string first_line;
  std::string second_line;
  /// Which run's metrics are the beginning of the other's: 1 or 2; 0: neither, or they have the same length.
  int beginning = 0;
  int64_t end_step = -1;  // of that run
  int64_t weights_step =
      -1;  // the last after which both runs recorded their weights and these are equal; -1: none

  /// Whether equal batches have equal hashes: not if they were divided into different grains, which are hashed separately, or
  /// if only one run hashed pixels.
  bool can_compare_batches() const;
  /// Same batches and same weights. Build, ISA and kernels may still differ.
  bool same_batches() const;
  bool same_weights() const;
  /// Whether different kernels ran although no option that determines them differs: at least one run measured its own. False if
  /// one of them ran none.
  bool has_measured_otherwise() const;
  bool chose_none = false;            // a run without steps has no kernels
  std::array<bool, 2> by_rules = {};  // kernels chosen by rules: in the first run, in the second
  /// Whether the shorter run's last weights are known to equal those of the longer one at that point.
  bool is_known_beginning() const { return beginning != 0 && weights_step == end_step; }
  bool same() const { return receipt.empty() && first_step < 0; }
};
Result<RunDifference> compare_runs(const std::string& first, const std::string& second);

// How this library was built and from what; shown in receipts, `dlpipe --version` and `dlpipe info`.

/// "dlpipe 0.2.0 (Release, GNU 12.2.0, oneDNN 2.6.3)"
std::string build_line();
/// Name and version of the libraries that it was built against.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace dlpipe::run
