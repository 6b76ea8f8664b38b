// Commands that create data: `dlpipe ingest` (a dataset from raw files), `dlpipe join` (one dataset from the parts of an ingest) and
// `dlpipe synth` (synthetic images to try everything with).
#include <memory>

#include "base/messages.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "io/data/sources/typed_columns.h"
#include "io/formats/json.h"
#include "run/ingest/join.h"
#include "run/ingest/options.h"
#include "run/ingest/synth.h"
#include "run/input/path_kind.h"

namespace dlpipe::cli {

namespace {

void print_tables(const ingest::IngestReport& report) {
  if (const std::string skipped = ingest::skipped_text(report); !skipped.empty()) print_warning(skipped);
  std::vector<std::vector<std::string>> rows = {{"dataset", "samples", "classes", "bytes", "id"}};
  for (const ingest::IngestReport::Split& split : report.splits) {
    rows.push_back({split.directory, human_count(split.samples),
                    human_count(static_cast<int64_t>(report.classes.size())), human_bytes(split.file_bytes),
                    split.id});
  }
  print_answer(format_table(rows));
  if (report.already_complete) {
    print_answer(concat("the dataset already exists, made with the same options",
                        report.files_compared
                            ? " from files with the same names and sizes"
                            : "; the files were not compared, because the dataset doesn't record them"));
    return;
  }
  if (report.stages.empty()) return;
  std::string stages;
  for (const auto& stage : report.stages) stages += concat(stage.name, " ", fixed(stage.busy_s, 1), " s  ");
  print_answer(
      prose(concat(human_seconds(report.seconds), report.resumed ? " (resumed from an earlier run)" : "",
                   "; threads were busy with: ", stages, "limit: ", report.limiting)));
}

Progress ingest_progress(const ingest::IngestProgress& progress) {
  return {
      progress.done, progress.total, progress.samples_per_s, progress.remaining_s,
      concat(progress.skipped > 0 ? concat("skipped ", human_count(progress.skipped), "  ") : std::string(),
             "limit ", progress.limiting)};
}

using IngestWork =
    std::function<Result<ingest::IngestReport>(const std::function<void(const ingest::IngestProgress&)>&,
                                               const std::function<void(const std::string& warning)>&)>;

/// Does `work` with a progress line that begins with `verb`, and prints its warnings and its report.
Status show_ingest(std::string_view verb, bool json, const IngestWork& work) {
  ProgressLine line;
  const auto report =
      work([&](const ingest::IngestProgress& progress) { line.show(verb, ingest_progress(progress)); },
           [&](const std::string& warning) {
             line.end();
             print_warning(warning);
           });
  line.end();
  if (!report.ok()) return report.status();
  if (json)
    print_answer(ingest::to_json(*report));
  else
    print_tables(*report);
  return {};
}

// `dlpipe ingest SRC DST` makes a dataset from raw files.

struct IngestOptions {
  ingest::IngestOptions ingest;
  std::string on_error = "auto";
  std::string store = "auto";
  std::string jpeg = "auto";
  std::string split;
  std::string dedup = "off";
  std::string part;
  std::string background;
  std::string window = "256MiB";
  std::string map_size = "0";
  bool json = false;
};

/// The last positional word is DST, unless DST is given as a named option.
Status find_destination(ingest::IngestOptions& ingest) {
  if (ingest.destination.empty() && ingest.sources.size() + (ingest.list.empty() ? 0 : 1) >= 2) {
    ingest.destination = ingest.sources.back();
    ingest.sources.pop_back();
  }
  if (!ingest.destination.empty()) return {};
  return misuse("ingest", ingest.sources.empty() ? "SRC and DST are" : "DST is",
                " missing: `dlpipe ingest SRC... DST` makes the dataset DST; see 'dlpipe "
                "ingest --help'");
}

Status parse_texts(IngestOptions& options) {
  DLPIPE_RETURN_IF_ERROR(find_destination(options.ingest));
  DLPIPE_ASSIGN_OR_RETURN(options.ingest.on_error, ingest::parse_on_error(options.on_error));
  DLPIPE_ASSIGN_OR_RETURN(options.ingest.store, ingest::parse_store(options.store));
  DLPIPE_ASSIGN_OR_RETURN(options.ingest.jpeg, ingest::parse_jpeg_layout(options.jpeg));
  if (!options.split.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(options.ingest.split, ingest::parse_split(options.split));
  }
  DLPIPE_ASSIGN_OR_RETURN(options.ingest.dedup, ingest::parse_dedup(options.dedup));
  if (!options.part.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(options.ingest.part, ingest::parse_part(options.part));
  }
  if (!options.background.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(options.ingest.background, ingest::parse_background(options.background));
  }
  for (const auto& [name, text, bytes] :
       {std::tuple("--window", &options.window, &options.ingest.window_bytes),
        std::tuple("--map-size", &options.map_size, &options.ingest.map_bytes)}) {
    if (!parse_bytes(*text, bytes))
      return misuse("ingest", name, " ", *text, "; give a size with a unit, such as 512MiB or 2GiB");
  }
  return {};
}

Status ingest_sources(IngestOptions options) {
  DLPIPE_RETURN_IF_ERROR(parse_texts(options));
  const std::atomic<bool>* stop = catch_stop_signals();
  options.ingest.stop_requested = [stop] { return stop->load(); };
  for (const std::string& source : options.ingest.sources)
    DLPIPE_RETURN_IF_ERROR(run::refuse_other_kind("ingest", source, run::Wanted::kRawData));
  return show_ingest("ingest", options.json, [&](const auto& progress, const auto& on_warning) {
    options.ingest.on_warning = on_warning;
    return ingest::ingest(options.ingest, progress);
  });
}

std::function<Status()> setup_ingest(Flags& flags) {
  auto options = std::make_shared<IngestOptions>();
  ingest::IngestOptions& ingest = options->ingest;
  flags.add_option(
      "SRC", ingest.sources,
      "What to read, one or several: a folder with one folder per class, or with train, val and test "
      "folders of those; a .tar, .tar.gz or .tar.zst (WebDataset shards, class folders), a folder of "
      "them, or - for one on the standard input; .csv or .tsv list of path,label; Hugging Face's folder "
      "with metadata.csv or .jsonl; IDX file or folder "
      "(.gz too); a .txt of PATH LABEL (Caffe's lists), or of text; COCO's .json or root folder, VOCdevkit, "
      "YOLO's data.yaml; NumPy's .npz or .npy; "
      "archives at https:// or s3://. "
      "'shards-{000..127}.tar' "
      "and wildcards are expanded");
  flags.add_option("DST", ingest.destination,
                   "Dataset to create; the same command resumes an interrupted run");
  flags.add_option("--list", ingest.list, "File with more SRC, one per line, paths relative to its folder");
  flags.add_option("--manifest", ingest.manifest,
                   "List of path,label[,split,...], paths relative to SRC or absolute");
  flags.add_option("--label", ingest.label,
                   "Where the class is, if it isn't found automatically: a column of a list, a key of a "
                   "shard's .json, or a shard's ending such as fine.cls");
  flags.add_option(
      "--field", ingest.fields,
      concat("COLUMN:KIND, once for each column of a list that is not plain text. KIND: ",
             data::column_kinds_text(),
             ". Labels or numbers of each box: COLUMN:KIND:COLUMN_OF_BOXES. For shards: ENDING:mask, such as "
             "seg.png:mask"));
  flags.add_option("--labels", ingest.labels,
                   "File with one class per line, for images without class folders: line N is the class of "
                   "the Nth image by name");
  flags.add_option("--images", ingest.images,
                   "Folder of the images that SRC (a list or a COCO .json) describes; found automatically "
                   "if it is next to SRC");
  flags.add_option(
      "--classes-from", ingest.classes_from,
      "Dataset with the class numbers to use, or file with one class per line: the first is label "
      "0");
  flags.add_option("--on-error", options->on_error,
                   "What to do about bad files: auto (skip and list them, but stop at a truncated archive), "
                   "skip, stop");
  flags.add_option("--store", options->store,
                   "auto (the file's own bytes; raw for IDX), jpeg, raw, link (images stay in their files "
                   "or tar archives, and are "
                   "read from there)");
  flags.add_option("--jpeg", options->jpeg,
                   "Layout of JPEGs: coefficients (fastest crops, the same pixels, about 13 % more bytes), "
                   "coefficients-dense (fast crops, no more bytes), restart (an indexed JPEG, faster crops), "
                   "standard (the file); auto: coefficients, except for tiny images that would grow by more "
                   "than 25 %");
  flags.add_flag("--trust", ingest.trust,
                 "Skip checks: don't compare the pixels of --jpeg's layout with the file's, and with "
                 "--store link don't decode every image");
  flags.add_option("--resize-max", ingest.resize_max, "Scale longer sides down to N pixels; 0: don't");
  flags.add_option(
      "--background", options->background,
      "Colour behind transparent pixels of PNG and WebP: white, black or #rrggbb. Such images are "
      "encoded again, as PNG. Default: alpha is dropped");
  flags.add_option("--quality", ingest.quality, "Quality of JPEGs that are encoded again, 1 to 100");
  flags.add_flag("--zstd", ingest.zstd, "Compress each record; worthwhile for raw pixels");
  flags.add_option("--limit", ingest.limit, "At most N files, chosen with --seed; -1: all");
  flags.add_option("--split", options->split,
                   "Fractions of train,val[,test], such as 0.9,0.1. They apply to each class; a text is cut "
                   "into consecutive parts");
  flags.add_option("--group", ingest.group,
                   "Field whose equal values stay together in --split and --folds, such as a patient; "
                   "folder: images of the same folder. The splits of SRC are checked for it");
  flags.add_option("--folds", ingest.folds,
                   "Number the samples 1 to K in a field `fold`, each class evenly, for train --fold and "
                   "crossval; 0: don't");
  flags.add_option("--dedup", options->dedup,
                   "Copies: images with the same pixels, or nearly the same after re-encoding, resizing, "
                   "mirroring, brightening or a small crop. drop (store only the first by path), group (keep "
                   "them together in --split and --folds), off. Decodes every file twice");
  flags.add_option(
      "--part", options->part,
      "Store only this part of the files, such as 3/16, here or on another machine; `dlpipe join` joins "
      "all parts to one dataset");
  flags.add_flag("--no-splits", ingest.no_splits,
                 "Don't make splits of folders, files and a column called train, val or test");
  flags.add_option("--length", ingest.length, "Tokens per sequence, for texts");
  flags.add_option("--seed", ingest.seed, "Seed of --split, --folds and --limit");
  flags.add_option("--window", options->window, "Bytes read ahead of the writer");
  flags.add_option("--threads", ingest.jobs, "Threads; 0: as many as the process may use");
  flags.add_option("--map-size", options->map_size,
                   "Maximum bytes of a dataset; 0: 16 GiB plus eight times the estimated size");
  flags.add_option("--max-pixels", ingest.max_pixels, "Treat images with more pixels as bad files");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return ingest_sources(*options); };
}

// `dlpipe join DST PART...` joins the parts of an ingest to one dataset.

struct JoinOptions {
  ingest::JoinOptions join;
  bool json = false;
};

Status join_parts(JoinOptions options) {
  if (options.join.destination.empty())  // an unset variable
    return misuse("join", "DST is empty; give the dataset to create");
  const std::atomic<bool>* stop = catch_stop_signals();
  options.join.stop_requested = [stop] { return stop->load(); };
  return show_ingest("join", options.json, [&](const auto& progress, const auto& on_warning) {
    options.join.on_warning = on_warning;
    return ingest::join(options.join, progress);
  });
}

std::function<Status()> setup_join(Flags& flags) {
  auto options = std::make_shared<JoinOptions>();
  flags
      .add_option("DST", options->join.destination,
                  "Dataset to create; the same command resumes an interrupted run")
      .required();
  flags.add_option("PART", options->join.parts, "All parts that `dlpipe ingest --part` made, in any order")
      .required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  flags.footer(
      "DST has the same bytes as one ingest of all files. The parts stay; remove them when DST is complete.");
  return [options] { return join_parts(*options); };
}

// `dlpipe synth OUT` draws synthetic images to try everything with.

struct SynthOptions {
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
    return misuse("synth", "--size ", text, "; give pixels, such as 32, or a range, such as 32..64");
  synth.size_min = static_cast<int>(low);
  synth.size_max = static_cast<int>(high);
  return {};
}

/// The command that ingests what was drawn, with the kinds of the list's columns. "" for folders by class.
std::string ingest_command(const ingest::SynthOptions& synth) {
  const std::string out = shell_word(synth.directory),
                    list = shell_word(concat(synth.directory, "/list.csv"));
  const std::string split = " --split 0.9,0.1";
  if (synth.task == "multilabel")
    return concat("dlpipe ingest ", out, " DATA --manifest ", list, " --field tags:labels", split);
  if (synth.task == "regress")
    return concat("dlpipe ingest ", out, " DATA --manifest ", list,
                  " --field x:number --field y:number --field size:number", split);
  if (synth.task == "detect")
    return concat("dlpipe ingest ", shell_word(concat(synth.directory, "/annotations.json")),
                  " DATA --images ", shell_word(concat(synth.directory, "/images")), split);
  return synth.task == "segment" ? concat("dlpipe ingest ", out, " DATA", split) : "";
}

Status synthesize(SynthOptions options) {
  DLPIPE_RETURN_IF_ERROR(parse_size(options.size, options.synth));
  const auto draw = [&] {
    const std::string& out = options.synth.directory;
    const StopText kept(concat("; ", out, " was not made; the same command starts again, and ", out,
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
  print_answer(concat(options.synth.directory, ": ", counted(report.files, "JPEG"), ", ",
                      human_bytes(report.bytes), ", ",
                      counted(static_cast<int64_t>(report.classes.size()), "class", "classes")));
  if (const std::string command = ingest_command(options.synth); !command.empty())
    print_note(concat("next: ", command));
  return {};
}

std::function<Status()> setup_synth(Flags& flags) {
  auto options = std::make_shared<SynthOptions>();
  flags
      .add_option("OUT", options->synth.directory,
                  "Folder to make: OUT/CLASS/NNNNN.jpg, or OUT/images and what --task has")
      .required();
  flags
      .add_option(
          "--task", options->synth.task,
          "What to draw it for: classify (a folder for each class), multilabel, regress, detect, segment")
      .type_name("TASK");
  flags.add_option("--per-class", options->synth.per_class,
                   "Images of each of the ten classes; of other tasks a tenth of all");
  flags.add_option("--size", options->size, "Sides in pixels: N, or N..M to draw each");
  flags.add_option("--quality", options->synth.quality, "Quality of the JPEGs, 1 to 100").range(1, 100);
  flags.add_option("--seed", options->synth.seed, "Seed of the drawing; equal seeds give equal files");
  flags.add_option("--threads", options->synth.jobs, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return synthesize(*options); };
}

}  // namespace

extern const CommandRecord ingest_command;
const CommandRecord ingest_command = {"ingest", "Make a dataset from raw files", setup_ingest};

extern const CommandRecord join_command;
const CommandRecord join_command = {"join", "Join the parts of an ingest to one dataset", setup_join};

extern const CommandRecord synth_command;
const CommandRecord synth_command = {"synth", "Draw a synthetic dataset of JPEGs", setup_synth};

}  // namespace dlpipe::cli
