// `dlpipe verify DST`: every record against its checksum.
#include <algorithm>
#include <memory>
#include <vector>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/dataset_arguments.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/progress_line.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/io/data/duplicates.h"
#include "dlpipe/io/data/record.h"
#include "dlpipe/io/data/verify.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::string directory;
  data::VerifyOptions verify;
  bool json = false;
};

using formats::Json;

Json json_of(const std::string& split, const data::Dataset& dataset, const data::VerifyReport& report) {
  Json bad = Json::array();
  for (const auto& one : report.bad)
    bad.push_back(
        Json::object({{"sample", one.sample}}).set_path("path", one.path).set("reason", one.reason));
  return Json::object({{"split", split},
                       {"directory", dataset.directory()},
                       {"id", dataset.id()},
                       {"id_matches", report.id_matches},
                       {"samples", report.samples},
                       {"known", report.known},
                       {"bytes", static_cast<int64_t>(report.bytes)},
                       {"ok", report.ok()},
                       {"bad", std::move(bad)}});
}

void print_text(const data::Dataset& dataset, const data::VerifyReport& report, bool decoded) {
  for (const auto& bad : report.bad)
    print_answer(concat("bad: sample ", bad.sample,
                        bad.path.empty() ? "" : concat(" (", printable(bad.path), ")"), ": ",
                        printable(bad.reason)));
  if (!report.id_matches)
    print_answer(
        concat("bad: the header table, classes, counts, statistics or description are not those of the id ",
               dataset.id()));
  if (report.known < report.samples)
    print_note(concat("[verify] ", human_count(report.samples - report.known), " of the ",
                      human_count(report.samples), " pictures that ", dataset.directory(),
                      " links to were read for the first time: of these size, time and the first ",
                      human_bytes(data::kLateBegin),
                      " could be compared, and their checksums are noted now"));
  if (dataset.format_version() < 2)
    print_warning(concat(
        "[verify] ", dataset.directory(),
        " is of format version 1, whose id leaves out the pixel statistics: nothing can check them; ingest "
        "again for a dataset of version 2"));
  print_answer(concat(dataset.directory(), ": ", human_count(report.samples), " samples, ",
                      human_bytes(report.bytes), decoded ? ", checksums and pixels" : ", checksums",
                      report.seconds < 1 ? "" : concat(", ", human_seconds(report.seconds)), ": ",
                      report.ok() ? std::string("all good") : concat(report.bad.size(), " bad")));
}

void print_unlike(const UnlikeProvenance& unlike) {
  for (const ingest::MadeSplit& split : unlike.lost) print_answer(concat("bad: ", text_of_lost(split)));
  for (const ingest::MadeSplit& split : unlike.other)
    print_answer(concat("bad: ", split.name.empty() ? std::string("it") : printable(split.name),
                        " is another dataset than was made here, whose id was ", split.id));
}

/// Where all that was read is good, and it isn't what ingest made.
Status advice_for_unlike(const std::string& directory) {
  const std::string made = concat(printable(directory), "/", ingest::kProvenanceName);
  return Status(ErrorCode::kCorrupt,
                concat("[verify] ", printable(directory), " is not what ", made,
                       " says was made; copy it again, or ingest its files again. If it was changed on "
                       "purpose, remove ",
                       made));
}

/// What to do about what was found; `bad` are all samples that aren't good, of all datasets.
Status advice(const std::string& directory, const std::vector<data::VerifyReport::Bad>& bad, bool ids_match) {
  const auto gone = std::count_if(bad.begin(), bad.end(), [](const auto& one) { return !one.gone.empty(); });
  const bool is_damaged = !ids_match || gone != static_cast<int64_t>(bad.size());
  std::string text = concat("[verify] ", printable(directory));
  if (is_damaged) text += " is damaged; copy it again, or ingest its files again";
  if (gone > 0) {
    const auto first =
        std::find_if(bad.begin(), bad.end(), [](const auto& one) { return !one.gone.empty(); });
    text += concat(is_damaged ? ". And it" : "", " links to ", human_count(gone),
                   gone == 1 ? " picture whose file isn't" : " pictures whose files aren't",
                   " there any more: they are expected where they were, such as ", printable(first->gone),
                   "; bring them back there, or link them where they are now: dlpipe ingest PICTURES DATA "
                   "--store link");
  }
  return Status(ErrorCode::kCorrupt, text);
}

/// Warns of images in several splits or classes: nothing is damaged, so verify goes on.
Result<data::DuplicateImages> find_duplicates(const std::vector<NamedDataset>& named,
                                              data::StoredImages& images) {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<const data::Dataset>> datasets;
  for (const NamedDataset& one : named) {
    names.push_back(one.split);
    datasets.push_back(one.dataset);
  }
  DLPIPE_ASSIGN_OR_RETURN(const data::DuplicateImages found, images.duplicates(datasets));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> warnings,
                          data::warnings_of(found, "verify", names, datasets));
  for (const std::string& warning : warnings) print_warning(warning);
  return found;
}

Status run(Options options) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<NamedDataset> datasets,
                          open_all(options.directory, data::Dataset::IdCheck::kLater));
  const std::atomic<bool>* stop = catch_stop_signals();
  options.verify.stop_requested = [stop] { return stop->load(); };
  Json all = Json::array();
  bool ids_match = true;
  std::vector<data::VerifyReport::Bad> bad;
  data::StoredImages images;
  for (const NamedDataset& one : datasets) {
    ProgressLine line;
    const auto report = data::verify(*one.dataset, options.verify, [&](int64_t done, int64_t total) {
      line.show("verify", {done, total});
    });
    line.end();
    if (!report.ok()) return report.status();
    const auto split = static_cast<size_t>(&one - datasets.data());
    for (size_t sample = 0; sample < report->image_checksums.size(); ++sample)
      images.add(split, static_cast<int64_t>(sample), report->image_checksums[sample]);
    ids_match = ids_match && report->id_matches;
    bad.insert(bad.end(), report->bad.begin(), report->bad.end());
    if (options.json)
      all.push_back(json_of(one.split, *one.dataset, *report));
    else
      print_text(*one.dataset, *report, options.verify.decode);
  }
  const UnlikeProvenance unlike = compare_with_provenance("verify", options.directory, datasets);
  const bool are_good = ids_match && bad.empty();
  DLPIPE_ASSIGN_OR_RETURN(const data::DuplicateImages duplicates, find_duplicates(datasets, images));
  if (options.json) {
    print_answer(Json::object({{"directory", options.directory},
                               {"ok", are_good && unlike.empty()},
                               {"datasets", std::move(all)},
                               {"in_splits", duplicates.in_splits},
                               {"in_classes", duplicates.in_classes},
                               {"lost", json_of_splits(unlike.lost)},
                               {"other", json_of_splits(unlike.other)}})
                     .dump());
  } else {
    print_unlike(unlike);
  }
  if (!are_good) return advice(options.directory, bad, ids_match);
  return unlike.empty() ? Status() : advice_for_unlike(options.directory);
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("DATA", options->directory, "Dataset, or a folder of splits").required();
  const Flag decode = flags.add_flag("--decode", options->verify.decode, "Decode every image, too");
  flags.add_option("--threads", options->verify.jobs, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags
      .add_option("--max-pixels", options->verify.max_pixels,
                  "With --decode: count images with more pixels as damaged")
      .needs(decode);
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord verify_command;
const CommandRecord verify_command = {"verify", "Check every record of a dataset", setup};

}  // namespace dlpipe::cli
