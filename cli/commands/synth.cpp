// `dlpipe synth OUT`: a drawn dataset to try everything with.
#include <memory>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/ingest/synth.h"

namespace dlpipe::cli {

namespace {

struct Options {
  ingest::SynthOptions synth;
  std::string size = "32";
  bool json = false;
};

Status parse_size(const std::string& text, ingest::SynthOptions& synth) {
  const size_t dots = text.find("..");
  int64_t low = 0;
  int64_t high = 0;
  const bool range = dots != std::string::npos;
  const bool numbers =
      parse_int(text.substr(0, dots), &low) && parse_int(range ? text.substr(dots + 2) : text, &high);
  if (!numbers || low < 1 || high > 100'000)
    return misuse("synth", "--size ", text, "; give pixels, as 32, or a range, as 32..64");
  synth.size_min = static_cast<int>(low);
  synth.size_max = static_cast<int>(high);
  return {};
}

Status run(Options options) {
  DLPIPE_RETURN_IF_ERROR(parse_size(options.size, options.synth));
  const auto draw = [&] {
    const std::string& out = options.synth.directory;
    const StopText kept(concat("; ", out, " was not made; the same command begins anew, and what is in ", out,
                               ".partial may be removed"));
    return ingest::synth(options.synth);
  };
  DLPIPE_ASSIGN_OR_RETURN(const ingest::SynthReport report, draw());
  if (options.json) {
    using formats::Json;
    print_answer(Json::object({{"directory", options.synth.directory},
                               {"files", report.files},
                               {"bytes", static_cast<int64_t>(report.bytes)},
                               {"classes", Json(Json::Array(report.classes.begin(), report.classes.end()))}})
                     .dump());
    return {};
  }
  print_answer(concat(options.synth.directory, ": ", human_count(report.files), " JPEGs, ",
                      human_bytes(report.bytes), ", ", report.classes.size(), " classes"));
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("OUT", options->synth.directory, "Folder to make: OUT/CLASS/NNNNN.jpg").required();
  flags.add_option("--per-class", options->synth.per_class, "Pictures of each of the ten classes");
  flags.add_option("--size", options->size, "Sides in pixels: N, or N..M to draw each");
  flags.add_option("--quality", options->synth.quality, "Quality of the JPEGs, 1 to 100").range(1, 100);
  flags.add_option("--seed", options->synth.seed, "Seed of the drawing; equal seeds give equal files");
  flags.add_option("--threads", options->synth.jobs, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord synth_command;
const CommandRecord synth_command = {"synth", "Draw a synthetic dataset of JPEGs", setup};

}  // namespace dlpipe::cli
