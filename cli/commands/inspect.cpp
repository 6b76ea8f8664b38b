// `dlpipe inspect DST`: what a dataset holds.
#include <algorithm>
#include <memory>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/dataset_arguments.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/io/data/inspect.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::string directory;
  bool json = false;
  bool skipped = false;
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

/// What the columns behind the classes count, where that isn't samples alone.
std::string counted_text(const data::InspectReport& report, bool has_samples) {
  if (report.label_counts.empty()) return {};
  std::string text = has_samples ? "" : "no sample has a class itself; ";
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

/// What is only to be said of images: the lines between a report's head and its file.
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

/// The characters that tokens stand for, in their order, each class's text as JSON writes it.
std::string alphabet_lines(const data::InspectReport& report, int64_t length) {
  std::string alphabet;
  for (const std::string& character : report.classes) {
    const std::string quoted = formats::Json(character).dump();
    alphabet += quoted.substr(1, quoted.size() - 2);
  }
  return concat("tokens     ", length, " per sample, the last one only predicted\nalphabet   ",
                report.classes.size(), ": ", alphabet, "\n");
}

void print_text(const data::InspectReport& report) {
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
      report.records_per_value, " records per value, compression ", report.compression,
      report.links ? concat("\nlinks      the pictures lie in files",
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

// What the splits share, their sums, and each of them; without splits the one dataset's split is "".
Result<std::string> json_of(const std::string& directory, const std::vector<NamedDataset>& datasets,
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

// The files that ingest left out, as --json lists them.
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

Status run(const Options& options) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<NamedDataset> datasets, open_all(options.directory));
  const UnlikeProvenance unlike = compare_with_provenance("inspect", options.directory, datasets);
  warn_of_lost("inspect", options.directory, unlike);
  if (options.skipped && options.json) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string json, skipped_json(datasets));
    print_answer(json);
    return {};
  }
  if (options.skipped) return print_skipped(datasets);
  std::vector<data::InspectReport> reports;
  for (const NamedDataset& one : datasets) {
    DLPIPE_ASSIGN_OR_RETURN(data::InspectReport report, data::inspect(*one.dataset));
    if (!options.json) {
      print_text(report);
      DLPIPE_ASSIGN_OR_RETURN(const auto kept, data::kept_as_jpeg(*one.dataset));
      for (const auto& [reason, count] : kept)
        print_answer(concat(human_count(count), " stayed JPEG: ", reason));
    }
    reports.push_back(std::move(report));
  }
  if (options.json) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string json,
                            json_of(options.directory, datasets, reports, unlike.lost));
    print_answer(json);
  }
  return {};
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("DATA", options->directory, "Dataset, or a folder of splits").required();
  flags.add_flag("--json", options->json, "Print one JSON line");
  flags.add_flag("--skipped", options->skipped, "List the files that ingest left out, and why");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord inspect_command;
const CommandRecord inspect_command = {"inspect", "Show what a dataset holds", setup};

}  // namespace dlpipe::cli
