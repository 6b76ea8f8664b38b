#include "dlpipe/run/ingest/publish.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/run/ingest/files.h"

namespace dlpipe::ingest {

using Json = nlohmann::ordered_json;

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

Status seal(const Paths& paths, const FrozenList& list, const IngestReport& report) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  Json json;
  json["options"] = list.options;
  json["finished"] = utc_now();
  json["host"] = host.data();
  json["cpu"] = cpu_model();
  json["files"] = list.entry_count();
  json["skipped"] = report.skipped.size();
  json["warnings"] = report.warnings;
  for (const IngestReport::Split& split : report.splits)
    json["splits"].push_back({{"name", split.name}, {"samples", split.samples}, {"id", split.id}});
  DLPIPE_RETURN_IF_ERROR(
      write_file_durably(paths.provenance, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
  if (::unlink(paths.list.c_str()) != 0 && errno != ENOENT)
    return status_from_errno("ingest", concat("cannot remove ", paths.list), errno);
  return sync_directory(paths.partial);
}

Status publish(const Paths& paths) {
  return rename_durably(paths.partial, paths.destination);
}

Result<Provenance> read_provenance(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return status_from_errno("ingest", concat("cannot read ", file), errno);
  try {
    const Json json = Json::parse(std::string((std::istreambuf_iterator<char>(in)), {}));
    Provenance provenance;
    provenance.options = json.at("options").get<std::string>();
    for (const Json& split : json.at("splits"))
      provenance.splits.push_back(split.at("name").get<std::string>());
    return provenance;
  } catch (const Json::exception& error) {
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", file, " is malformed: ", error.what()));
  }
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

}  // namespace dlpipe::ingest
