// Text, token after token, from a checkpoint of a model of tokens. One thread calls; the engine's threads
// work. Throws Error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "dlpipe/run/config/registries.h"

namespace dlpipe::run {

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt = "\n";
  int64_t tokens = 500;
  double temperature = 1.0;  // logits are divided by it; 0: always the likeliest token
  int64_t top_k = 0;         // draw from so many of the likeliest; 0: all
  uint64_t seed = 0;
  int threads = 0;  // 0: what the process may use
};

/// Calls sink(text) with the prompt and then with each new token, until it answers false. kMisuse for a
/// prompt with characters that the training text didn't have, and for models of pictures; kNonfinite where the model answers NaN
/// or infinity.
void generate(const GenerateOptions& options, const std::function<bool(const std::string&)>& sink,
              const Registries& registries = {});

}  // namespace dlpipe::run
