// `dlpipe predict`: classes for image files, a line for each file as soon as it is known.

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/model_flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/run/use/answers_json.h"
#include "dlpipe/run/use/picture_list.h"
#include "dlpipe/run/use/predictor.h"

namespace dlpipe::cli {

namespace {

struct Options {
  run::PredictOptions predict;
  std::vector<std::string> paths;
  bool json = false;
};

// Path, then class and probability of each of the top classes, tabs between: names are printed without any.
std::string text_line(const run::Prediction& prediction) {
  std::string line = printable(prediction.path);
  for (const auto& [name, probability] : prediction.top) {
    line += concat("\t", printable(name), "\t", fixed(probability, 4));
  }
  return line;
}

Status predict(const Options& options) {
  const run::PictureList list = value_or_throw(run::list_pictures(options.paths, run::read_standard_input));
  const std::vector<run::PictureFile>& files = list.files;
  if (!list.left_aside.empty()) print_note(concat("[predict] left aside, no pictures: ", list.left_aside));
  run::Predictor predictor(options.predict);
  for (const std::string& note : predictor.model().notes) print_note(printable(note));
  int64_t unusable = 0, done = 0;
  StopText kept("; no file was looked at yet");
  predictor.predict(files, [&](const run::Prediction& prediction) {
    bool is_read = true;
    if (!prediction.error.empty()) {
      ++unusable;
      print_warning(concat("dlpipe: ", printable(prediction.path), ": ", printable(prediction.error)));
    }
    if (prediction.error.empty() || options.json)
      is_read = print_answer(options.json ? run::to_json(prediction).dump() : text_line(prediction));
    kept.set(concat(" after ", human_count(++done), " of ", human_count(static_cast<int64_t>(files.size())),
                    " files, which are printed whole"));
    return is_read;
  });
  if (unusable == 0) return {};
  return {ErrorCode::kCorrupt, concat("[predict] ", unusable, " of ", files.size(),
                                      " files could not be used; they are named above")};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  add_model_flags(flags, options->predict.model);
  flags
      .add_option("PATH", options->paths,
                  "Image files, or folders of them; '-': standard input, one image or a path per line")
      .required();
  flags.add_option("--top", options->predict.top, "Classes per file").range(1, 1'000'000);
  flags.add_option("--batch", options->predict.batch, "Images per batch").range(1, 1'000'000);
  flags.add_option("--device", options->predict.device, "cpu, cuda");
  flags.add_option("--threads", options->predict.threads, "Threads; 0: what the process may use")
      .range(0, kMostThreads);
  flags.add_option("--max-pixels", options->predict.max_pixels, "Refuse to decode images with more pixels");
  flags.add_flag("--json", options->json, "Print a JSON line for each file");
  flags.footer(
      "A file that is missing or can't be read or decoded, or for which the model answers NaN or infinity, "
      "is named on stderr "
      "(with --json its line has an \"error\") and the others go on; the exit code is then 1.");
  return [options] { return predict(*options); };
}

}  // namespace

extern const CommandRecord predict_command;
const CommandRecord predict_command = {"predict", "Classify image files with a trained model", setup};

}  // namespace dlpipe::cli
