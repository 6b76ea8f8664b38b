// `dlpipe predict`: classes for image files, a line for each file as soon as it is known.
#include <unistd.h>

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

/// Prints them as they come, and counts.
class Answers {
 public:
  /// `total`: how many there will be, "12"; "" where nobody knows yet.
  Answers(bool json, std::string total) : json_(json), total_(std::move(total)) {}

  /// False once nobody reads them any more.
  bool print(const run::Prediction& prediction) {
    bool is_read = true;
    if (!prediction.error.empty()) {
      ++unusable_;
      print_warning(concat("dlpipe: ", printable(prediction.path), ": ", printable(prediction.error)));
    }
    if (prediction.error.empty() || json_)
      is_read = print_answer(json_ ? run::to_json(prediction).dump() : text_line(prediction));
    kept_.set(concat(" after ", human_count(++done_), total_.empty() ? "" : " of ", total_,
                     " files, which are printed whole"));
    return is_read;
  }

  Status status() const {
    if (unusable_ == 0) return {};
    return {ErrorCode::kCorrupt,
            concat("[predict] ", unusable_, " of ", total_.empty() ? human_count(done_) : total_,
                   " files could not be used; they are named above")};
  }

 private:
  const bool json_;
  const std::string total_;
  int64_t unusable_ = 0, done_ = 0;
  StopText kept_{"; no file was looked at yet"};
};

void tell_left_aside(const std::string& names) {
  if (!names.empty()) print_warning(concat("[predict] left aside, no pictures: ", names));
}

void tell_notes(const run::Predictor& predictor) {
  for (const std::string& note : predictor.model().notes) print_note(printable(note));
}

/// Answers as soon as a batch is full or standard input pauses: whoever writes there may wait for them.
Status predict_stream(const Options& options) {
  run::PictureStream pictures = value_or_throw(run::PictureStream::open(options.paths, STDIN_FILENO));
  run::Predictor predictor(options.predict);
  tell_notes(predictor);
  Answers answers(options.json, "");
  bool is_read = true;
  while (is_read) {
    const auto files = pictures.next(static_cast<size_t>(options.predict.batch));
    tell_left_aside(pictures.take_left_aside());
    DLPIPE_RETURN_IF_ERROR(files.status());
    if (files->empty()) break;
    is_read = predictor.predict_piece(
        *files, [&](const run::Prediction& prediction) { return answers.print(prediction); });
  }
  return answers.status();
}

Status predict(const Options& options) {
  if (run::names_standard_input(options.paths)) return predict_stream(options);
  const run::PictureList list = value_or_throw(run::list_pictures(options.paths));
  tell_left_aside(list.left_aside);
  run::Predictor predictor(options.predict);
  tell_notes(predictor);
  Answers answers(options.json, human_count(static_cast<int64_t>(list.files.size())));
  predictor.predict(list.files, [&](const run::Prediction& prediction) { return answers.print(prediction); });
  return answers.status();
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  add_model_flags(flags, options->predict.model);
  flags
      .add_option(
          "PATH", options->paths,
          "Image files, or folders of them; '-': standard input, one image or a path per line, which are "
          "answered as they come")
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
