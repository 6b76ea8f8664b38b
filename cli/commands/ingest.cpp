// `dlpipe ingest SRC DST`: raw files to a dataset.
#include <memory>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/ingest_view.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/io/data/sources/typed_columns.h"
#include "dlpipe/run/ingest/ingest.h"
#include "dlpipe/run/input/path_kind.h"

namespace dlpipe::cli {

namespace {

struct Options {
  ingest::IngestOptions ingest;
  std::string on_error = "auto";
  std::string store = "auto";
  std::string jpeg = "auto";
  std::string split;
  std::string part;
  std::string background;
  std::string window = "256MiB";
  std::string map_size = "0";
  bool json = false;
};

/// Of the words by their places the last one is DST, unless DST is given by a name.
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

Status parse_texts(Options& options) {
  DLPIPE_RETURN_IF_ERROR(find_destination(options.ingest));
  DLPIPE_ASSIGN_OR_RETURN(options.ingest.on_error, ingest::parse_on_error(options.on_error));
  DLPIPE_ASSIGN_OR_RETURN(options.ingest.store, ingest::parse_store(options.store));
  DLPIPE_ASSIGN_OR_RETURN(options.ingest.jpeg, ingest::parse_jpeg_layout(options.jpeg));
  if (!options.split.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(options.ingest.split, ingest::parse_split(options.split));
  }
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
      return misuse("ingest", name, " ", *text, "; give a size with its unit, as 512MiB or 2GiB");
  }
  return {};
}

Status run(Options options) {
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

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  ingest::IngestOptions& ingest = options->ingest;
  flags.add_option(
      "SRC", ingest.sources,
      "What to read, one or several: a folder with one folder per class, or with train, val and test "
      "folders of these; a .tar, .tar.gz or .tar.zst (WebDataset shards, class folders), a folder of "
      "them, or - for one on the standard input; .csv or .tsv list of path,label; Hugging Face's folder "
      "with metadata.csv or .jsonl; IDX file or folder "
      "(.gz too); a .txt of PATH LABEL as Caffe has it, or of text; COCO's .json or root folder, VOCdevkit, "
      "YOLO's data.yaml; NumPy's .npz or .npy; "
      "archives at https:// or s3://. "
      "'shards-{000..127}.tar' "
      "and wildcards are expanded");
  flags.add_option("DST", ingest.destination,
                   "Dataset to make; an interrupted run is continued by the same command");
  flags.add_option("--list", ingest.list, "File with further SRC, one per line, paths below its own folder");
  flags.add_option("--manifest", ingest.manifest,
                   "List of path,label[,split,...], paths below SRC or absolute");
  flags.add_option(
      "--label", ingest.label,
      "Name of what holds the class, where it isn't found by itself: a column of a list, a key of a "
      "shard's .json, a shard's ending as fine.cls");
  flags.add_option(
      "--field", ingest.fields,
      concat("COLUMN:KIND, once for each column of a list that is more than text. KIND: ",
             data::column_kinds_text(),
             ". Labels or numbers of each box: COLUMN:KIND:COLUMN_OF_BOXES. Of shards: ENDING:mask, as "
             "seg.png:mask"));
  flags.add_option("--labels", ingest.labels,
                   "File with one class per line, for pictures without class folders: line N is the class of "
                   "the Nth picture by name");
  flags.add_option("--images", ingest.images,
                   "Folder of the pictures that SRC, a list or a COCO .json, describes; found by itself "
                   "where it lies beside it");
  flags.add_option(
      "--classes-from", ingest.classes_from,
      "Dataset whose numbers of the classes to take, or file with a class per line: the first is label "
      "0");
  flags.add_option("--on-error", options->on_error,
                   "What to do about bad files: auto (skip and list them, but stop at an archive that is cut "
                   "short), skip, stop");
  flags.add_option("--store", options->store,
                   "auto (the file's own bytes; raw for IDX), jpeg, raw, link (pictures stay in their files "
                   "or tar archives, and are "
                   "read from there)");
  flags.add_option("--jpeg", options->jpeg,
                   "Layout of JPEGs: coefficients (fastest crops, the same pixels, about 13 % more bytes), "
                   "coefficients-dense (fast crops, no more bytes), restart (an indexed JPEG, faster crops), "
                   "standard (the file); auto: coefficients, but for tiny pictures that would grow by over "
                   "25 %");
  flags.add_flag("--trust", ingest.trust,
                 "Leave out checks: the pixels of --jpeg's layout are not compared with the file's, and with "
                 "--store link not every picture is decoded");
  flags.add_option("--resize-max", ingest.resize_max, "Scale longer sides down to N pixels; 0: don't");
  flags.add_option(
      "--background", options->background,
      "Colour behind transparent pixels of PNG and WebP: white, black or #rrggbb; such pictures are "
      "stored anew, as PNG. Without it alpha is left out");
  flags.add_option("--quality", ingest.quality, "Quality of JPEGs that are re-coded, 1 to 100");
  flags.add_flag("--zstd", ingest.zstd, "Compress each record; pays for raw pixels");
  flags.add_option("--limit", ingest.limit, "At most N files, chosen by --seed; -1: all");
  flags.add_option("--split", options->split,
                   "Fractions of train,val[,test], as 0.9,0.1. Each class is divided by them; a text is cut "
                   "into consecutive parts");
  flags.add_option(
      "--part", options->part,
      "Store only this part of the files, as 3/16, here or on another machine; `dlpipe join` makes "
      "one dataset of all parts");
  flags.add_flag("--no-splits", ingest.no_splits,
                 "Make no splits of folders, files and a column that are called train, val or test");
  flags.add_option("--length", ingest.length, "Tokens per sequence, of texts");
  flags.add_option("--seed", ingest.seed, "Seed of --split and --limit");
  flags.add_option("--window", options->window, "Bytes read ahead of the writer");
  flags.add_option("--threads", ingest.jobs, "Threads; 0: as many as the process may use");
  flags.add_option("--map-size", options->map_size,
                   "Most bytes of a dataset; 0: 16 GiB and eight times the estimate");
  flags.add_option("--max-pixels", ingest.max_pixels, "Treat images with more pixels as bad files");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord ingest_command;
const CommandRecord ingest_command = {"ingest", "Make a dataset of raw files", setup};

}  // namespace dlpipe::cli
