// What a run's own figures, of all of it or of what there is so far, say about its speed: who waited for whom, and what to try.
// Pure functions over ledger.json and the run's options.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/config/config.h"

namespace dlpipe::run {

struct Finding {
  std::string what;  // a sentence with its figure
  std::string advice;
  double share = 0;  // of the time it is about; what could be saved at most
};

struct Diagnosis {
  std::string verdict;            // one sentence: the limit
  std::vector<Finding> findings;  // the largest first; empty: nothing to gain was found
};

struct MachineFacts {
  bool has_bf16 = false;            // products of bf16 are faster than of f32
  std::string dataset_layout = {};  // of its first image, as image_layout_name says; empty: unknown
  int64_t quarantined_samples = 0;
  bool is_training = false;  // a process trains in the run directory
  std::string run = "RUN";   // its directory, for commands
};

/// kCorrupt where the file isn't a ledger.
Result<Diagnosis> diagnose(const formats::Json& ledger, const TrainConfig& config, const MachineFacts& facts);

}  // namespace dlpipe::run
