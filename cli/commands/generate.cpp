// `dlpipe generate`: text from a checkpoint, on stdout as it comes.
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/use/text_generator.h"

namespace dlpipe::cli {

namespace {

struct Options {
  run::GenerateOptions generate;
  bool json = false;
};

// The prompt comes first and whole, then each token.
Status generate_json(const run::GenerateOptions& options) {
  std::string text;
  int64_t pieces = 0;
  run::generate(options, [&](const std::string& piece) {
    if (pieces++ > 0) text += piece;
    return true;
  });
  print_answer(formats::Json::object({{"checkpoint", options.checkpoint},
                                      {"prompt", options.prompt},
                                      {"text", text},
                                      {"tokens", pieces - 1}})
                   .dump());
  return {};
}

Status generate(const Options& given) {
  const run::GenerateOptions& options = given.generate;
  if (given.json) return generate_json(options);
  StdoutText text;  // until nobody reads any more: `dlpipe generate ... | head`
  run::generate(options, [&](const std::string& piece) { return text.write(piece); });
  text.finish();
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto all = std::make_shared<Options>();
  run::GenerateOptions* const options = &all->generate;
  flags.add_option("CKPT", options->checkpoint, "Checkpoint, or a run (its best checkpoint)").required();
  flags.add_option("--prompt", options->prompt, "Text to continue").type_name("TEXT");
  flags.add_option("--tokens", options->tokens, "Characters to add").range(0, 100'000'000);
  flags
      .add_option("--temperature", options->temperature,
                  "Divides the logits: below 1 the text is more likely, above 1 more varied; 0: always the "
                  "likeliest character")
      .range(0.0, 1e6);
  flags.add_option("--top-k", options->top_k, "Draw from the N likeliest characters; 0: from all")
      .range(0, 1'000'000);
  flags.add_option("--seed", options->seed, "Seed of the random draws");
  flags.add_option("--threads", options->threads, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags.add_flag("--json", all->json, "Print one JSON line, when all is there");
  return [all] { return generate(*all); };
}

}  // namespace

extern const CommandRecord generate_command;
const CommandRecord generate_command = {"generate", "Write text with a checkpoint of a character model",
                                        setup};

}  // namespace dlpipe::cli
