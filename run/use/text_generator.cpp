#include "dlpipe/run/use/text_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/portable_math.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/rng.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/inference_mode.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/run/use/class_report.h"
#include "dlpipe/run/use/loaded_model.h"

namespace dlpipe::run {

namespace {

/// The longest name of a class first, so that characters of several bytes are found whole.
std::vector<int64_t> tokens_of(const std::string& text, const std::vector<std::string>& vocabulary) {
  std::vector<int64_t> tokens;
  for (size_t at = 0; at < text.size();) {
    int64_t found = -1;
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      const bool longer = found < 0 || vocabulary[i].size() > vocabulary[static_cast<size_t>(found)].size();
      if (longer && !vocabulary[i].empty() && text.compare(at, vocabulary[i].size(), vocabulary[i]) == 0)
        found = static_cast<int64_t>(i);
    }
    if (found < 0) {
      refuse("generate", "the training text has no ",
             text == GenerateOptions().prompt
                 ? std::string("line breaks, which text begins with by default; give --prompt some of its "
                               "characters")
                 : concat(in_quotes(text.substr(at, std::max<size_t>(utf8_bytes(text, at), 1))), " (place ",
                          at, " of --prompt); leave it out"));
    }
    tokens.push_back(found);
    at += vocabulary[static_cast<size_t>(found)].size();
  }
  return tokens;
}

/// A token drawn from softmax(logits / temperature), among the top_k likeliest.
int64_t draw(std::span<const float> logits, const GenerateOptions& options, RandomStream& random) {
  if (std::isnan(probabilities_of(logits).front()))
    throw Error(
        Status(ErrorCode::kNonfinite,
               "[generate] the model answers NaN or infinity, so no token has a probability; take another "
               "checkpoint"));
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.temperature <= 0) return order.front();
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < order.size())
    order.resize(static_cast<size_t>(options.top_k));
  const double largest = logits[static_cast<size_t>(order.front())];
  std::vector<double> weights;
  weights.reserve(order.size());
  for (const int64_t token : order)
    weights.push_back(portable_exp((logits[static_cast<size_t>(token)] - largest) / options.temperature));
  double left = random.uniform_double() * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();
}

}  // namespace

void generate(const GenerateOptions& options, const std::function<bool(const std::string&)>& sink,
              const Registries& registries) {
  engine::set_engine_threads(options.threads > 0 ? options.threads : available_threads());
  const LoadedModel loaded =
      load_model({.weights = options.checkpoint}, registries, nullptr, BareFiles::kRefused);
  const int64_t length = loaded.state.arguments.length;
  if (length == 0) {
    refuse("generate", loaded.state.model, " takes pictures, no tokens; see dlpipe predict");
  }
  if (engine::graph::is_graph_file(options.checkpoint)) {
    refuse("generate", options.checkpoint, " is a compiled model, which takes ", length,
           " tokens at a time and no fewer; give the run or the checkpoint that it was compiled from");
  }
  std::vector<int64_t> tokens = tokens_of(options.prompt, loaded.state.classes);
  if (tokens.empty()) refuse("generate", "--prompt is empty; give some text");
  if (!sink(options.prompt)) return;
  engine::ConstantCache constants = weights_as_constants(loaded.model->parameters());
  const engine::UseConstantCache packed_once(&constants);
  const engine::InferenceMode mode;
  const engine::UseAutocast autocast(dtype_of(loaded, ""));
  RandomStream random(options.seed, 0);
  for (int64_t i = 0; i < options.tokens; ++i) {
    const size_t seen = std::min(tokens.size(), static_cast<size_t>(length));
    const std::span<const int64_t> context = std::span(tokens).last(seen);
    const engine::Tensor ids = engine::Tensor::from(context, {1, static_cast<int64_t>(seen)});
    const engine::Tensor logits =
        engine::cast(engine::plain((*loaded.model)(ids)), DType::kF32).contiguous_copy();
    const auto classes = static_cast<size_t>(logits.size(1));
    const int64_t token = draw({logits.data<float>() + (seen - 1) * classes, classes}, options, random);
    tokens.push_back(token);
    if (!sink(loaded.state.classes.at(static_cast<size_t>(token)))) return;
  }
}

}  // namespace dlpipe::run
