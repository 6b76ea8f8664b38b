// Commands on a dataset, or on all datasets of a folder of splits: `dlpipe inspect` (shows its contents), `dlpipe verify` (compares every
// record with its checksum), `dlpipe export` (writes files) and `dlpipe preview` (draws what a chain of augmentations does).
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "io/data/export.h"
#include "io/data/inspect.h"
#include "io/data/problems.h"
#include "io/data/record.h"
#include "io/data/verify.h"
#include "io/formats/json.h"
#include "run/ingest/publish.h"
#include "run/input/path_kind.h"
#include "run/use/preview.h"

namespace dlpipe::cli {

namespace {

struct NamedDataset {
  std::string split;  // "" if the directory is one dataset
  std::shared_ptr<const data::Dataset> dataset;
};

/// The dataset itself, or all of its splits, sorted by name.
Result<std::vector<NamedDataset>> open_all(const std::string& directory,
                                           data::Dataset::IdCheck check = data::Dataset::IdCheck::kRefuse) {
  DLPIPE_RETURN_IF_ERROR(run::refuse_other_kind("dataset", directory, run::Wanted::kDataset));
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> splits, data::split_names(directory));
  if (splits.empty()) splits.push_back("");
  std::vector<NamedDataset> all;
  for (const std::string& split : splits) {
    DLPIPE_ASSIGN_OR_RETURN(auto dataset, data::Dataset::open(directory, split, check));
    all.push_back({split, std::move(dataset)});
  }
  return all;
}

/// How provenance.json next to the datasets of `directory` differs from them. Empty if there is no such file; a file that
/// can't be read causes a warning.
struct UnlikeProvenance {
  std::vector<ingest::MadeSplit> lost;   // missing
  std::vector<ingest::MadeSplit> other;  // present, with another id
  bool empty() const { return lost.empty() && other.empty(); }
};

UnlikeProvenance compare_with_provenance(std::string_view area, const std::string& directory,
                                         const std::vector<NamedDataset>& datasets) {
  const auto made = ingest::made_splits(concat(directory, "/", ingest::kProvenanceName));
  UnlikeProvenance unlike;
  if (made.status().code() == ErrorCode::kNotFound) return unlike;
  if (!made.ok()) {
    print_warning(concat("[", area, "] can't check which splits were made: ", made.status().message()));
    return unlike;
  }
  for (const ingest::MadeSplit& split : *made) {
    const auto found = std::find_if(datasets.begin(), datasets.end(),
                                    [&](const NamedDataset& one) { return one.split == split.name; });
    if (found == datasets.end())
      unlike.lost.push_back(split);
    else if (found->dataset->id() != split.id)
      unlike.other.push_back(split);
  }
  return unlike;
}

/// "train, with 160 samples, is missing"
std::string text_of_lost(const ingest::MadeSplit& split) {
  return concat(printable(split.name), ", with ", counted(split.samples, "sample"), ", is missing");
}

/// Their names, samples and ids, as --json writes them.
formats::Json json_of_splits(const std::vector<ingest::MadeSplit>& splits) {
  formats::Json all = formats::Json::array();
  for (const ingest::MadeSplit& split : splits)
    all.push_back(
        formats::Json::object({{"split", split.name}, {"samples", split.samples}, {"id", split.id}}));
  return all;
}

/// Warns about lost splits, since the output is about the others only.
void warn_of_lost(std::string_view area, const std::string& directory, const UnlikeProvenance& unlike) {
  for (const ingest::MadeSplit& split : unlike.lost)
    print_warning(concat("[", area, "] ", text_of_lost(split), ", but ", printable(directory), "/",
                         ingest::kProvenanceName, " lists it"));
}

// inspect

struct InspectOptions {
  std::string directory;
  bool json = false;
  bool skipped = false;
  bool problems = false;
  data::ProblemOptions search;
};

std::string spread_text(const data::Spread& spread) {
  return concat(spread.min, " .. ", spread.max, ", mean ", fixed(spread.mean, 1));
}

std::string histogram_text(const char* title, const std::vector<data::HistogramBin>& bins) {
  int64_t most = 1;
  for (const data::HistogramBin& bin : bins) most = std::max(most, bin.count);
  std::vector<std::vector<std::string>> rows = {{title, "samples", ""}};
  constexpr int64_t kBar = 40;
  for (const data::HistogramBin& bin : bins)
    rows.push_back({concat(bin.from, " .. ", bin.to - 1), human_count(bin.count),
                    std::string(static_cast<size_t>((bin.count * kBar + most - 1) / most), '#')});
  return format_table(rows);
}

/// Explains what the columns after the classes count, if that isn't only samples.
std::string counted_text(const data::InspectReport& report, bool has_samples) {
  if (report.label_counts.empty()) return {};
  std::string text = has_samples ? "" : "no sample has a class of its own; ";
  for (const data::LabelCounts& field : report.label_counts) {
    text += concat(&field == &report.label_counts.front() ? "" : ", ", printable(field.field), " counts ",
                   field.of.empty() ? std::string("samples that name the class") : printable(field.of));
  }
  return text + "\n";
}

std::string classes_text(const data::InspectReport& report) {
  const bool has_samples =
      report.label_counts.empty() || std::any_of(report.class_counts.begin(), report.class_counts.end(),
                                                 [](int64_t count) { return count > 0; });
  std::vector<std::vector<std::string>> rows = {{"label", "class"}};
  if (has_samples) rows[0].emplace_back("samples");
  for (const data::LabelCounts& field : report.label_counts) rows[0].push_back(printable(field.field));
  constexpr size_t kShown = 30;
  for (size_t i = 0; i < std::min(kShown, report.classes.size()); ++i) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {std::to_string(i), printable(report.classes[i])};
    if (has_samples) row.push_back(human_count(report.class_counts[i]));
    for (const data::LabelCounts& field : report.label_counts) row.push_back(human_count(field.counts[i]));
  }
  std::string text = format_table(rows) + counted_text(report, has_samples);
  if (report.classes.size() > kShown)
    text += concat("... and ", report.classes.size() - kShown, " more; --json has all\n");
  return text;
}

/// The lines that a report has only for images, between its head and its file.
std::string image_lines(const data::InspectReport& report) {
  std::string layouts;
  for (const auto& [name, count] : report.layouts)
    layouts += concat(layouts.empty() ? "" : ", ", human_count(count), " ", name);
  std::string stats;
  for (int c = 0; c < report.pixel_stats.channels; ++c)
    stats += concat(c > 0 ? "  " : "", fixed(report.pixel_stats.mean[c], 4), " +- ",
                    fixed(report.pixel_stats.std[c], 4));
  return concat("images     ", layouts, ", ", human_count(report.grey), " grey, ",
                human_count(report.rotated), " with an orientation\nwidth      ", spread_text(report.width),
                "\nheight     ", spread_text(report.height), "\npixels     ", stats, "\n");
}

/// The characters that tokens represent, in their order, each written as in JSON.
std::string alphabet_lines(const data::InspectReport& report, int64_t length) {
  std::string alphabet;
  for (const std::string& character : report.classes) {
    const std::string quoted = formats::Json(character).dump();
    alphabet += quoted.substr(1, quoted.size() - 2);
  }
  return concat("tokens     ", length, " per sample, the last one is only predicted\nalphabet   ",
                report.classes.size(), ": ", alphabet, "\n");
}

void print_inspection(const data::InspectReport& report) {
  std::string fields;
  for (const data::Field& field : report.fields)
    fields += concat(fields.empty() ? "" : ", ", printable(field.name));
  const auto tokens = std::find_if(report.fields.begin(), report.fields.end(),
                                   [](const data::Field& field) { return field.name == "tokens"; });
  const bool is_text = tokens != report.fields.end();
  print_answer(concat(
      report.directory, "  id ", report.id, "\nsamples    ", human_count(report.samples),
      is_text ? std::string() : concat("\nclasses    ", report.classes.size()), "\nfields     ", fields, "\n",
      is_text ? alphabet_lines(report, tokens->shape[0]) : image_lines(report), "record     ",
      spread_text(report.record_bytes), " bytes\nfile       ", human_bytes(report.file_bytes), ", ",
      counted(report.records_per_value, "record"), " per value, compression ", report.compression,
      report.links ? concat("\nlinks      the images are in files",
                            report.links->empty() ? "" : concat(" below ", printable(*report.links)))
                   : "",
      "\nskipped    ", human_count(report.skipped), "\n"));
  if (is_text) return;
  print_answer(classes_text(report));
  print_answer(histogram_text("longer side", report.longer_side_histogram));
  print_answer(histogram_text("record bytes", report.record_bytes_histogram));
}

Status print_skipped(const std::vector<NamedDataset>& datasets) {
  for (const NamedDataset& one : datasets) {
    DLPIPE_ASSIGN_OR_RETURN(const auto skipped, one.dataset->skipped());
    for (const auto& file : skipped) print_answer(concat(printable(file.path), ": ", printable(file.reason)));
  }
  return {};
}

// The facts that splits share, their sums, and each split. Without splits there is one dataset, with the split "".
Result<std::string> inspection_json(const std::string& directory, const std::vector<NamedDataset>& datasets,
                                    const std::vector<data::InspectReport>& reports,
                                    const std::vector<ingest::MadeSplit>& lost) {
  int64_t samples = 0, skipped = 0;
  formats::Json all = formats::Json::array();
  for (size_t i = 0; i < datasets.size(); ++i) {
    samples += reports[i].samples;
    skipped += reports[i].skipped;
    DLPIPE_ASSIGN_OR_RETURN(const formats::Json report, formats::Json::parse(data::to_json(reports[i])));
    formats::Json one = formats::Json::object({{"split", datasets[i].split}});
    for (const auto& [key, value] : report.members()) {
      if (key != "classes" && key != "fields") one.set(key, value);
    }
    all.push_back(std::move(one));
  }
  DLPIPE_ASSIGN_OR_RETURN(const formats::Json first, formats::Json::parse(data::to_json(reports[0])));
  return formats::Json::object({{"directory", directory},
                                {"samples", samples},
                                {"skipped", skipped},
                                {"fields", first["fields"]},
                                {"classes", first["classes"]},
                                {"datasets", std::move(all)},
                                {"lost", json_of_splits(lost)}})
      .dump();
}

// The files that ingest skipped, as --json lists them.
Result<std::string> skipped_json(const std::vector<NamedDataset>& datasets) {
  formats::Json files = formats::Json::array();
  for (const NamedDataset& one : datasets) {
    DLPIPE_ASSIGN_OR_RETURN(const auto skipped, one.dataset->skipped());
    for (const auto& file : skipped)
      files.push_back(formats::Json::object({{"split", one.split}})
                          .set_path("path", file.path)
                          .set("reason", file.reason));
  }
  return formats::Json::object({{"skipped", std::move(files)}}).dump();
}

// inspect --problems

formats::Json json_of_place(const data::ProblemReport::Place& place,
                            const std::vector<NamedDataset>& datasets) {
  return formats::Json::object({{"split", datasets[place.split].split}, {"sample", place.sample}})
      .set_path("path", place.path);
}

/// "train cat/1.jpg"
std::string text_of_place(const data::ProblemReport::Place& place,
                          const std::vector<NamedDataset>& datasets) {
  const std::string& split = datasets[place.split].split;
  return concat(split.empty() ? "" : concat(printable(split), " "),
                place.path.empty() ? concat("sample ", place.sample) : printable(place.path));
}

std::string problems_json(const std::string& directory, const data::ProblemReport& report,
                          const std::vector<NamedDataset>& datasets) {
  formats::Json classes = formats::Json::array(), images = formats::Json::array(),
                alike = formats::Json::array();
  for (const auto& one : report.classes)
    classes.push_back(
        formats::Json::object({{"class", one.name}, {"field", one.field}, {"samples", one.samples}}));
  for (const auto& image : report.images)
    images.push_back(
        json_of_place(image.place, datasets).set("problem", image.problem).set("detail", image.detail));
  for (const auto& pair : report.alike)
    alike.push_back(formats::Json::object({{"first", json_of_place(pair.first, datasets)},
                                           {"second", json_of_place(pair.second, datasets)},
                                           {"same", pair.same},
                                           {"mirrored", pair.mirrored}}));
  return formats::Json::object({{"directory", directory},
                                {"samples", report.samples},
                                {"classes", std::move(classes)},
                                {"images", std::move(images)},
                                {"alike", std::move(alike)},
                                {"alike_by_nature", report.alike_by_nature}})
      .dump();
}

void print_problems(const std::string& directory, const data::ProblemReport& report,
                    const std::vector<NamedDataset>& datasets) {
  constexpr size_t kShown = 10;
  std::string text;
  const auto head = [&](std::string_view what, size_t count) {
    text += concat(what, "  ", human_count(static_cast<int64_t>(count)), "\n");
  };
  const auto more = [&](size_t count) {
    if (count > kShown)
      text += concat("  and ", human_count(static_cast<int64_t>(count - kShown)), " more\n");
  };
  if (!report.classes.empty()) head("classes with no, one or few samples", report.classes.size());
  for (size_t i = 0; i < std::min(kShown, report.classes.size()); ++i) {
    const auto& one = report.classes[i];
    text +=
        concat("  ", printable(one.field), " ", printable(one.name), ": ", human_count(one.samples), "\n");
  }
  more(report.classes.size());
  for (const char* problem : data::kProblems) {
    std::vector<const data::ProblemReport::Image*> images;
    for (const auto& image : report.images) {
      if (image.problem == problem) images.push_back(&image);
    }
    if (!images.empty()) head(problem, images.size());
    for (size_t i = 0; i < std::min(kShown, images.size()); ++i)
      text += concat("  ", text_of_place(images[i]->place, datasets),
                     images[i]->detail.empty() ? "" : concat(": ", printable(images[i]->detail)), "\n");
    more(images.size());
  }
  // Pairs in different splits first: they matter most.
  std::vector<const data::ProblemReport::Alike*> pairs;
  for (const auto& pair : report.alike) pairs.push_back(&pair);
  const auto is_across = [](const data::ProblemReport::Alike* pair) {
    return pair->first.split != pair->second.split;
  };
  std::stable_partition(pairs.begin(), pairs.end(), is_across);
  const auto across = static_cast<size_t>(std::count_if(pairs.begin(), pairs.end(), is_across));
  if (!pairs.empty())
    head(
        concat("pairs of alike images (", human_count(static_cast<int64_t>(across)), " in different splits)"),
        pairs.size());
  for (size_t i = 0; i < std::min(kShown, pairs.size()); ++i)
    text += concat("  ", text_of_place(pairs[i]->first, datasets), " = ",
                   text_of_place(pairs[i]->second, datasets), ": the same ", pairs[i]->same,
                   pairs[i]->mirrored ? ", mirrored" : "", "\n");
  more(pairs.size());
  if (report.alike_by_nature > 0)
    text += concat(counted(report.alike_by_nature, "image looks", "images look"),
                   " like more than 100 others, as digits and scans do, so near copies can't be "
                   "distinguished from other images\n");
  print_answer(concat(printable(directory), ": ", counted(report.samples, "sample"), ", ",
                      text.empty() ? "no problems found\n" : "problems:\n", text));
}

Status inspect_problems(const InspectOptions& options, const std::vector<NamedDataset>& datasets) {
  std::vector<std::shared_ptr<const data::Dataset>> splits;
  splits.reserve(datasets.size());
  for (const NamedDataset& one : datasets) splits.push_back(one.dataset);
  data::ProblemOptions search = options.search;
  const std::atomic<bool>* stop = catch_stop_signals();
  search.stop_requested = [stop] { return stop->load(); };
  ProgressLine line;
  const auto report = data::find_problems(splits, search, [&](int64_t done, int64_t total) {
    line.show("inspect", {done, total});
  });
  line.end();
  if (!report.ok()) return report.status();
  if (options.json)
    print_answer(problems_json(options.directory, *report, datasets));
  else
    print_problems(options.directory, *report, datasets);
  return {};
}

Status inspect(const InspectOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<NamedDataset> datasets, open_all(options.directory));
  const UnlikeProvenance unlike = compare_with_provenance("inspect", options.directory, datasets);
  warn_of_lost("inspect", options.directory, unlike);
  if (options.skipped && options.json) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string json, skipped_json(datasets));
    print_answer(json);
    return {};
  }
  if (options.skipped) return print_skipped(datasets);
  if (options.problems) return inspect_problems(options, datasets);
  std::vector<data::InspectReport> reports;
  for (const NamedDataset& one : datasets) {
    DLPIPE_ASSIGN_OR_RETURN(data::InspectReport report, data::inspect(*one.dataset));
    if (!options.json) {
      print_inspection(report);
      DLPIPE_ASSIGN_OR_RETURN(const auto kept, data::kept_as_jpeg(*one.dataset));
      for (const auto& [reason, count] : kept)
        print_answer(concat(human_count(count), " stayed JPEG: ", reason));
    }
    reports.push_back(std::move(report));
  }
  if (options.json) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string json,
                            inspection_json(options.directory, datasets, reports, unlike.lost));
    print_answer(json);
  }
  return {};
}

std::function<Status()> setup_inspect(Flags& flags) {
  auto options = std::make_shared<InspectOptions>();
  flags.add_option("DATA", options->directory, "Dataset, or a folder of splits").required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  const Flag skipped =
      flags.add_flag("--skipped", options->skipped, "List the files that ingest skipped, and why");
  Flag problems = flags.add_flag(
      "--problems", options->problems,
      "Decode all images and list what may be wrong: classes with few samples; images that are unreadable, "
      "of "
      "an odd size or shape, of one colour, dark or blurred; empty boxes; numbers that are not finite; "
      "unknown "
      "classes in masks; copies");
  problems.excludes(skipped);
  flags
      .add_option("--threads", options->search.threads,
                  "Threads of --problems; 0: as many as the process may use")
      .range(0, kMostThreads)
      .needs(problems);
  flags
      .add_option("--max-pixels", options->search.max_pixels,
                  "With --problems: images with more pixels are unreadable")
      .needs(problems);
  return [options] { return inspect(*options); };
}

// verify

struct VerifyOptions {
  std::string directory;
  data::VerifyOptions verify;
  bool json = false;
};

using formats::Json;

Json verification_json(const std::string& split, const data::Dataset& dataset,
                       const data::VerifyReport& report) {
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

void print_verification(const data::Dataset& dataset, const data::VerifyReport& report, bool decoded) {
  for (const auto& bad : report.bad)
    print_answer(concat("bad: sample ", bad.sample,
                        bad.path.empty() ? "" : concat(" (", printable(bad.path), ")"), ": ",
                        printable(bad.reason)));
  if (!report.id_matches)
    print_answer(
        concat("bad: the header table, classes, counts, statistics or description don't match the id ",
               dataset.id()));
  if (report.known < report.samples)
    print_note(concat("[verify] ", human_count(report.samples - report.known), " of the ",
                      counted(report.samples, "image"), " that ", dataset.directory(),
                      " links to were read for the first time: only their size, time and first ",
                      human_bytes(data::kLateBegin), " could be compared; their checksums are now stored"));
  if (dataset.format_version() < 2)
    print_warning(concat("[verify] ", dataset.directory(),
                         " has format version 1, and its id doesn't cover the pixel statistics, so they "
                         "can't be checked; ingest "
                         "again for a dataset of version 2"));
  print_answer(concat(dataset.directory(), ": ", counted(report.samples, "sample"), ", ",
                      human_bytes(report.bytes), decoded ? ", checksums and pixels" : ", checksums",
                      report.seconds < 1 ? "" : concat(", ", human_seconds(report.seconds)), ": ",
                      report.ok() ? std::string("all good") : concat(report.bad.size(), " bad")));
}

void print_unlike(const UnlikeProvenance& unlike) {
  for (const ingest::MadeSplit& split : unlike.lost) print_answer(concat("bad: ", text_of_lost(split)));
  for (const ingest::MadeSplit& split : unlike.other)
    print_answer(concat("bad: ", split.name.empty() ? std::string("it") : printable(split.name),
                        " is not the dataset that was made here, which had the id ", split.id));
}

/// The error if everything that was read is good, but it isn't what ingest made.
Status advice_for_unlike(const std::string& directory) {
  const std::string made = concat(printable(directory), "/", ingest::kProvenanceName);
  return Status(ErrorCode::kCorrupt,
                concat("[verify] ", printable(directory), " doesn't match ", made,
                       "; copy it again, or ingest its files again. If it was changed on "
                       "purpose, remove ",
                       made));
}

/// The error that says what to do about bad samples; `bad` are those of all datasets.
Status advice(const std::string& directory, const std::vector<data::VerifyReport::Bad>& bad, bool ids_match) {
  const auto gone = std::count_if(bad.begin(), bad.end(), [](const auto& one) { return !one.gone.empty(); });
  const bool is_damaged = !ids_match || gone != static_cast<int64_t>(bad.size());
  std::string text = concat("[verify] ", printable(directory));
  if (is_damaged) text += " is corrupt; copy it again, or ingest its files again";
  if (gone > 0) {
    const auto first =
        std::find_if(bad.begin(), bad.end(), [](const auto& one) { return !one.gone.empty(); });
    text += concat(is_damaged ? ". It also" : "", " links to ",
                   counted(gone, "image that no longer exists at its path,",
                           "images that no longer exist at their paths, such as"),
                   " ", printable(first->gone),
                   "; restore the files there, or link them where they are now: dlpipe ingest IMAGES DATA "
                   "--store link");
  }
  return Status(ErrorCode::kCorrupt, text);
}

/// Warns about images in several splits or classes. Nothing is corrupt, so verify continues.
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
                          data::warnings_of(found, "verify", names, datasets,
                                            "`dlpipe ingest SRC DST --dedup drop` stores only one of them"));
  for (const std::string& warning : warnings) print_warning(warning);
  return found;
}

Status verify(VerifyOptions options) {
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
      all.push_back(verification_json(one.split, *one.dataset, *report));
    else
      print_verification(*one.dataset, *report, options.verify.decode);
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

std::function<Status()> setup_verify(Flags& flags) {
  auto options = std::make_shared<VerifyOptions>();
  flags.add_option("DATA", options->directory, "Dataset, or a folder of splits").required();
  const Flag decode = flags.add_flag("--decode", options->verify.decode, "Decode every image, too");
  flags.add_option("--threads", options->verify.jobs, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags
      .add_option("--max-pixels", options->verify.max_pixels,
                  "With --decode: count images with more pixels as corrupt")
      .needs(decode);
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return verify(*options); };
}

// export

struct ExportOptions {
  std::string directory;
  data::ExportOptions files;
  bool json = false;
};

formats::Json export_json(const std::string& split, const data::ExportReport& report) {
  return formats::Json::object({{"split", split},
                                {"directory", report.directory},
                                {"files", report.files},
                                {"bytes", static_cast<int64_t>(report.bytes)},
                                {"rewritten", report.rewritten},
                                {"renamed", static_cast<int64_t>(report.renamed.size())},
                                {"list", report.list}});
}

std::string text_of(const data::ExportReport& report) {
  std::string text =
      concat(report.directory, ": ", counted(report.files, "file"), ", ", human_bytes(report.bytes));
  if (report.rewritten > 0) {
    text += concat("; ", human_count(report.rewritten),
                   " of them with the source's pixels but different bytes, because their JPEGs were not a "
                   "single baseline scan");
  }
  return text;
}

/// How to read back what the folders alone don't record; "" if they record everything.
std::string text_of_lists(const std::vector<std::string>& lists, bool is_changed) {
  if (lists.empty()) return "";
  std::string words;
  for (const std::string& list : lists) words += concat(shell_word(list), " ");
  return concat(quoted_names(lists), lists.size() == 1 ? " records" : " record",
                " what the folders don't (fields, classes in their order): `dlpipe ingest ", words,
                is_changed ? "DATA` reads them back, changed as described in the warning"
                           : "DATA` reads everything back");
}

void warn_of_changes(const data::ExportReport& report) {
  if (report.changed.empty()) return;
  std::string fields;
  for (const std::string& one : report.changed) fields += concat(fields.empty() ? "" : "; ", one);
  print_warning(concat("[export] not all fields can be read back from ", printable(report.directory), "/",
                       report.list, " unchanged: ", fields));
}

Status export_files(const ExportOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<NamedDataset> datasets, open_all(options.directory));
  if (options.files.directory.empty())  // an unset variable
    return misuse("export", "OUT is empty; give the folder to create");
  warn_of_lost("export", options.directory, compare_with_provenance("export", options.directory, datasets));
  std::vector<data::ExportSplit> splits;
  splits.reserve(datasets.size());
  for (const NamedDataset& one : datasets) splits.push_back({one.split, one.dataset});
  data::ExportOptions files = options.files;
  files.stop_requested = [stop = catch_stop_signals()] { return stop->load(); };
  ProgressLine line;
  const auto reports = data::export_splits(splits, files, [&](int64_t done, int64_t total) {
    line.show("export", {done, total});
  });
  line.end();
  DLPIPE_RETURN_IF_ERROR(reports.status());
  formats::Json all = formats::Json::array();
  std::vector<std::string> lists;
  bool is_changed = false;
  Status unwritten;  // of the first dataset with a sample that has an impossible name
  for (size_t i = 0; i < splits.size(); ++i) {
    const data::ExportReport& report = (*reports)[i];
    if (unwritten.ok()) unwritten = data::unwritten_error(report);
    if (const std::string renamed = data::renamed_text(report); !renamed.empty()) print_warning(renamed);
    warn_of_changes(report);
    is_changed = is_changed || !report.changed.empty();
    if (!report.list.empty()) lists.push_back(concat(report.directory, "/", report.list));
    if (options.json)
      all.push_back(export_json(splits[i].name, report));
    else
      print_answer(text_of(report));
  }
  if (options.json)
    print_answer(formats::Json::object({{"datasets", std::move(all)}}).dump());
  else if (!lists.empty())
    print_answer(text_of_lists(lists, is_changed));
  return unwritten;
}

std::function<Status()> setup_export(Flags& flags) {
  auto options = std::make_shared<ExportOptions>();
  flags.add_option("DATA", options->directory, "Dataset, or a folder of splits").required();
  flags
      .add_option("OUT", options->files.directory,
                  "Folder to create: OUT/CLASS/FILE, or OUT/SPLIT/CLASS/FILE")
      .required();
  flags.add_option("--limit", options->files.limit, "Only the first N samples; -1: all");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return export_files(*options); };
}

// preview

struct PreviewOptions {
  std::string data;
  std::string augment;
  std::string diff;
  run::PreviewOptions preview;
  bool json = false;
};

/// The split `train`, or else the first one.
const data::Dataset& chosen(const std::vector<NamedDataset>& datasets) {
  for (const NamedDataset& one : datasets) {
    if (one.split == "train") return *one.dataset;
  }
  return *datasets.front().dataset;
}

/// Warns about samples that can't be shown; an error if there are any.
Status damage_of(const run::PreviewReport& report, const PreviewOptions& options) {
  if (report.damaged.empty()) return {};
  for (const auto& [sample, why] : report.damaged)
    print_warning(concat("[preview] sample ", sample, ": ", why.message()));
  return {ErrorCode::kCorrupt,
          concat("[preview] ", counted(static_cast<int64_t>(report.damaged.size()), "sample"),
                 " named above can't be shown, and ", options.preview.out, " has empty cells instead")};
}

Status draw_preview(const PreviewOptions& options) {
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
                                        {"corrupt", std::move(damaged)}})
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
    print_note(concat("[preview] the dataset also has annotations that are not drawn; to draw them: ", more));
  return damage_of(report, options);
}

std::function<Status()> setup_preview(Flags& flags) {
  auto options = std::make_shared<PreviewOptions>();
  flags.add_option("DATA", options->data, "Dataset, or a folder of splits (uses train)").required();
  flags.add_option("--augment", options->augment, "Chain of augmentations; see dlpipe help ops").required();
  flags.add_option("--diff", options->diff, "A second chain, drawn below the first");
  flags.add_option("--out", options->preview.out, "PNG to write; an existing file is replaced")
      .writes_file({".png"})
      .required();
  flags.add_option("--samples", options->preview.samples, "Samples, spread over the dataset").range(1, 1000);
  flags
      .add_option("--times", options->preview.times,
                  "Results per sample, as they would be drawn in epochs 0, 1, ...")
      .range(1, 100);
  flags.add_option("--cell", options->preview.cell, "Width and height of one image, in pixels")
      .range(8, 1024);
  flags.add_flag("--boxes", options->preview.marks.boxes, "Draw the boxes, transformed with the images");
  flags.add_flag("--points", options->preview.marks.points, "Draw the visible key points");
  flags.add_flag("--masks", options->preview.marks.masks,
                 "Tint the pixels of each class of the masks, except class 0");
  flags.add_option("--seed", options->preview.seed, "Seed of the draws");
  flags.add_option("--max-pixels", options->preview.max_pixels, "Refuse to decode images with more pixels");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return draw_preview(*options); };
}

}  // namespace

extern const CommandRecord inspect_command;
const CommandRecord inspect_command = {"inspect", "Show what a dataset contains", setup_inspect};

extern const CommandRecord verify_command;
const CommandRecord verify_command = {"verify", "Check every record of a dataset", setup_verify};

extern const CommandRecord export_command;
const CommandRecord export_command = {"export", "Write a dataset's images back to files", setup_export};

extern const CommandRecord preview_command;
const CommandRecord preview_command = {"preview", "Draw images that show what a chain of augmentations does",
                                       setup_preview};

}  // namespace dlpipe::cli
