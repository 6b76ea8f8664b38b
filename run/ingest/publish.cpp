#include "run/ingest/publish.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include "base/file.h"
#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/dataset.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"

namespace dlpipe::ingest {

Status drop_unbegun_environment(const std::string& directory) {
  const std::string file = directory + "/data.mdb";
  std::error_code absent;
  const uintmax_t size_bytes = std::filesystem::file_size(file, absent);
  if (absent || size_bytes >= 2 * static_cast<uintmax_t>(::sysconf(_SC_PAGESIZE))) return {};
  if (::unlink(file.c_str()) == 0) return {};
  return status_from_errno("ingest", concat("cannot remove ", file), errno);
}

Result<std::vector<MadeSplit>> made_splits(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::Json json, formats::read_json(file));
  std::vector<MadeSplit> splits;
  for (const formats::Json& split : json["splits"].items()) {
    MadeSplit& made = splits.emplace_back();
    DLPIPE_ASSIGN_OR_RETURN(made.name, formats::require_string(split, "name", file));
    DLPIPE_ASSIGN_OR_RETURN(made.samples, formats::require_int(split, "samples", file));
    DLPIPE_ASSIGN_OR_RETURN(made.id, formats::require_string(split, "id", file));
  }
  return splits;
}

using formats::Json;

Paths::Paths(std::string destination_in) : destination(std::move(destination_in)) {
  while (destination.size() > 1 && destination.back() == '/') destination.pop_back();
  partial = destination + ".partial";
  list = partial + "/" + kListName;
  provenance = partial + "/" + kProvenanceName;
}

std::string Paths::split(const std::string& root, const std::string& name) const {
  return name.empty() ? root : root + "/" + name;
}

static std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Status seal(const Paths& paths, const Provenance& made_of, const IngestReport& report) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  Json warnings = Json::array();
  for (const std::string& warning : report.warnings) warnings.push_back(warning);
  Json splits = Json::array();
  for (const IngestReport::Split& split : report.splits)
    splits.push_back(Json::object({{"name", split.name}, {"samples", split.samples}, {"id", split.id}}));
  const Json json = Json::object({{"options", made_of.options},
                                  {"finished", utc_now()},
                                  {"host", host.data()},
                                  {"cpu", cpu_model()},
                                  {"files", made_of.files},
                                  {"source", made_of.source},
                                  {"skipped", static_cast<int64_t>(report.skipped.size())},
                                  {"warnings", std::move(warnings)},
                                  {"splits", std::move(splits)}});
  DLPIPE_RETURN_IF_ERROR(formats::write_file(paths.provenance, json.dump(2) + "\n"));
  if (::unlink(paths.list.c_str()) != 0 && errno != ENOENT)
    return status_from_errno("ingest", concat("cannot remove ", paths.list), errno);
  return sync_directory("ingest", paths.partial);
}

Result<Provenance> read_provenance(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(const Json json, formats::read_json(file));
  Provenance provenance;
  DLPIPE_ASSIGN_OR_RETURN(provenance.options, formats::require_string(json, "options", file));
  DLPIPE_ASSIGN_OR_RETURN(provenance.files, formats::require_int(json, "files", file));
  if (json["source"].is_string()) provenance.source = json["source"].as_string();
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<MadeSplit> splits, made_splits(file));
  for (const MadeSplit& split : splits) provenance.splits.push_back(split.name);
  return provenance;
}

Status describe(const Paths& paths, const std::string& root, const std::vector<std::string>& splits,
                IngestReport& report) {
  report.splits.clear();
  report.skipped.clear();
  for (const std::string& name : splits) {
    DLPIPE_ASSIGN_OR_RETURN(const auto dataset, data::Dataset::open(paths.split(root, name)));
    report.splits.push_back(
        {name, paths.split(paths.destination, name), dataset->id(), dataset->size(), dataset->file_bytes()});
    report.classes.assign(dataset->classes().begin(), dataset->classes().end());
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<data::Dataset::Skipped> skipped, dataset->skipped());
    for (const data::Dataset::Skipped& one : skipped) report.skipped.push_back({one.path, one.reason});
  }
  return {};
}

static void add_warning(const std::string& warning, const std::function<void(const std::string&)>& on_warning,
                        IngestReport& report) {
  report.warnings.push_back(warning);
  if (on_warning) on_warning(warning);
}

Status find_duplicates(const DuplicateSearch& search, const Paths& paths, const std::string& root,
                       const std::vector<std::string>& splits, data::StoredImages& images,
                       const std::function<void(const std::string&)>& on_warning, IngestReport& report) {
  std::vector<std::shared_ptr<const data::Dataset>> datasets;
  for (size_t i = 0; i < splits.size(); ++i) {
    DLPIPE_ASSIGN_OR_RETURN(datasets.emplace_back(), data::Dataset::open(paths.split(root, splits[i])));
    DLPIPE_RETURN_IF_ERROR(images.add_missing(i, *datasets.back(), search.look_threads));
  }
  DLPIPE_RETURN_IF_ERROR(images.read_whole(datasets));
  DLPIPE_ASSIGN_OR_RETURN(const data::DuplicateImages found,
                          images.duplicates(datasets, search.look_threads));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> warnings,
                          data::warnings_of(found, search.area, splits, datasets, search.cure));
  for (const std::string& warning : warnings) add_warning(warning, on_warning, report);
  return {};
}

void warn_of_no_validation(std::string_view area, const Paths& paths, const std::vector<std::string>& splits,
                           const std::function<void(const std::string&)>& on_warning, IngestReport& report) {
  const auto is_there = [&](std::string_view name) {
    return std::ranges::find(splits, name) != splits.end();
  };
  if (!is_there("train") || !is_there("test") || is_there("val")) return;
  add_warning(concat("[", area, "] the splits are ", quoted_names(splits),
                     ", without 'val'; to validate on 'test', add --val ",
                     shell_word(paths.split(paths.destination, "test")), " to `dlpipe train`"),
              on_warning, report);
}

Status check_not_empty(data::PartialDirectory& partial, const IngestReport& report) {
  for (const IngestReport::Split& split : report.splits) {
    if (split.samples > 0) continue;
    DLPIPE_RETURN_IF_ERROR(partial.remove());
    const std::string first = report.skipped.empty()
                                  ? ""
                                  : concat("; the first: ", printable(report.skipped[0].path), ": ",
                                           without_area(report.skipped[0].reason));
    return Status(ErrorCode::kCorrupt,
                  concat("[ingest] no usable image",
                         split.name.empty() ? std::string() : concat(" for the split ", split.name), ": ",
                         counted(static_cast<int64_t>(report.skipped.size()), "file was", "files were"),
                         " skipped", first));
  }
  return {};
}

}  // namespace dlpipe::ingest
