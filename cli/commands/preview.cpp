// `dlpipe preview`: pictures of what a chain of augmentations does.
#include <memory>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/dataset_arguments.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/use/preview.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::string data;
  std::string augment;
  std::string diff;
  run::PreviewOptions preview;
  bool json = false;
};

/// The split `train`, or else the first.
const data::Dataset& chosen(const std::vector<NamedDataset>& datasets) {
  for (const NamedDataset& one : datasets) {
    if (one.split == "train") return *one.dataset;
  }
  return *datasets.front().dataset;
}

/// For people and, where there are some, for the exit code.
Status damage_of(const run::PreviewReport& report, const Options& options) {
  if (report.damaged.empty()) return {};
  for (const auto& [sample, why] : report.damaged)
    print_warning(concat("[preview] sample ", sample, ": ", why.message()));
  return {ErrorCode::kCorrupt,
          concat("[preview] ", report.damaged.size(), " samples can't be shown, named above; their cells in ",
                 options.preview.out, " are empty")};
}

Status run(const Options& options) {
  run::PreviewOptions preview = options.preview;
  DLPIPE_RETURN_IF_ERROR(check_stdout_is_free("preview", "--out", preview.out, options.json));
  preview.chains = {options.augment};
  if (!options.diff.empty()) preview.chains.push_back(options.diff);
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<NamedDataset> datasets, open_all(options.data));
  const auto draw = [&] {
    const StopText kept(concat("; ", preview.out, " was not written"));
    return run::preview(chosen(datasets), preview);
  };
  DLPIPE_ASSIGN_OR_RETURN(const run::PreviewReport report, draw());
  if (options.json) {
    formats::Json cells = formats::Json::array();
    for (const run::PreviewCell& cell : report.cells) {
      cells.push_back(formats::Json::object(
          {{"sample", cell.sample}, {"chain", cell.chain}, {"time", cell.time}, {"drawn", cell.drawn}}));
    }
    formats::Json damaged = formats::Json::array();
    for (const auto& [sample, why] : report.damaged)
      damaged.push_back(formats::Json::object({{"sample", sample}, {"error", why.message()}}));
    print_answer(formats::Json::object({{"file", preview.out},
                                        {"width", report.width},
                                        {"height", report.height},
                                        {"cells", std::move(cells)},
                                        {"damaged", std::move(damaged)}})
                     .dump());
    return damage_of(report, options);
  }
  std::vector<std::vector<std::string>> rows = {{"sample", "time", "drawn"}};
  if (preview.chains.size() > 1) rows = {{"sample", "chain", "time", "drawn"}};
  for (const run::PreviewCell& cell : report.cells) {
    std::vector<std::string> row = {std::to_string(cell.sample), std::to_string(cell.time), cell.drawn};
    if (preview.chains.size() > 1) row.insert(row.begin() + 1, cell.chain == 0 ? "--augment" : "--diff");
    rows.push_back(std::move(row));
  }
  print_beside(preview.out, format_table(rows));
  print_note(concat("[preview] ", preview.out, ": ", report.width, "x", report.height,
                    " pixels, originals on the left"));
  if (const std::string more = run::SampleMarks::options_for_others(chosen(datasets), preview.marks);
      !more.empty())
    print_note(concat("[preview] not drawn over the pictures, though the dataset has them: ", more));
  return damage_of(report, options);
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("DATA", options->data, "Dataset, or a folder of splits (its train)").required();
  flags.add_option("--augment", options->augment, "Chain of augmentations; see dlpipe help ops").required();
  flags.add_option("--diff", options->diff, "A second chain, drawn below the first");
  flags.add_option("--out", options->preview.out, "PNG to write").writes_file({".png"}).required();
  flags.add_option("--samples", options->preview.samples, "Samples, spread over the dataset").range(1, 1000);
  flags.add_option("--times", options->preview.times, "Results per sample: what epochs 0, 1, ... would draw")
      .range(1, 100);
  flags.add_option("--cell", options->preview.cell, "Width and height of one picture, in pixels")
      .range(8, 1024);
  flags.add_flag("--boxes", options->preview.marks.boxes, "Draw the boxes, moved with the pictures");
  flags.add_flag("--points", options->preview.marks.points, "Draw the key points that are visible");
  flags.add_flag("--masks", options->preview.marks.masks,
                 "Tint the pixels of each class of the masks, except class 0");
  flags.add_option("--seed", options->preview.seed, "Seed of the draws");
  flags.add_option("--max-pixels", options->preview.max_pixels, "Refuse to decode images with more pixels");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord preview_command;
const CommandRecord preview_command = {
    "preview", "Draw what a chain of augmentations does to pictures of a dataset", setup};

}  // namespace dlpipe::cli
