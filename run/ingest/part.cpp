#include "dlpipe/run/ingest/part.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/ingest/options.h"

namespace dlpipe::ingest {

namespace {

using formats::Json;

constexpr int64_t kPartVersion = 1;
constexpr size_t kSums = 8;

std::string hash_of(std::string_view text) {
  return hex64(data::checksum64(std::as_bytes(std::span(text))));
}

/// Pixel sums as JSON has integers: up to 2^63, as DatasetWriter's own do for 10^14 pixels.
Json json_of(const PartFile::Commit& commit) {
  const data::PixelSums& s = commit.sums;
  Json json = Json::array();
  json.push_back(static_cast<int64_t>(commit.end));
  json.push_back(commit.is_whole);
  for (const uint64_t value : {s.pixels, s.color_pixels, s.sum[0], s.sum[1], s.sum[2], s.sum_of_squares[0],
                               s.sum_of_squares[1], s.sum_of_squares[2]})
    json.push_back(static_cast<int64_t>(value));
  return json;
}

PartFile::Commit commit_of(const Json& json) {
  const Json::Array& items = json.items();
  if (items.size() != 2 + kSums) return {};
  std::array<uint64_t, kSums> n{};
  for (size_t i = 0; i < kSums; ++i) n[i] = static_cast<uint64_t>(items[2 + i].as_int());
  return {static_cast<uint64_t>(items[0].as_int()),
          items[1].as_bool(),
          {n[0], n[1], {n[2], n[3], n[4]}, {n[5], n[6], n[7]}}};
}

Json json_of(const PartFile& part) {
  Json warnings = Json::array();
  for (const std::string& warning : part.warnings) warnings.push_back(warning);
  Json splits = Json::array();
  for (const PartFile::Split& split : part.splits) {
    Json commits = Json::array();
    for (const PartFile::Commit& commit : split.commits) commits.push_back(json_of(commit));
    splits.push_back(Json::object({{"name", split.name},
                                   {"entries", static_cast<int64_t>(split.entries)},
                                   {"begin", static_cast<int64_t>(split.range.begin)},
                                   {"end", static_cast<int64_t>(split.range.end)},
                                   {"commits", std::move(commits)}}));
  }
  return Json::object({{"format", "dlpipe-part"},
                       {"version", kPartVersion},
                       {"part", part.part.number},
                       {"parts", part.part.count},
                       {"options", part.options},
                       {"source", part.source},
                       {"list", part.list},
                       {"map_bytes", static_cast<int64_t>(part.map_bytes)},
                       {"files", part.files},
                       {"warnings", std::move(warnings)},
                       {"splits", std::move(splits)}});
}

/// Beside options and files: what sizes were taken for, where transactions end, how records are packed.
std::string list_hash(const IngestOptions& options, const FrozenList& list) {
  data::DatasetInfo info;
  info.schema = list.schema;
  info.schema.links.reset();  // SRC, which the options have
  info.class_counts.resize(list.schema.classes.size());
  std::string text = data::to_json(info);
  for (const FrozenSplit& split : list.splits) {
    for (const uint64_t end : list.borders(split, options.commit_bytes, options.commit_entries))
      text += concat(" ", end);
    text += "\n";
  }
  return hash_of(text);
}

}  // namespace

PartRange range_of(const Part& part, uint64_t entries) {
  const auto number = static_cast<uint64_t>(part.number), count = static_cast<uint64_t>(part.count);
  return {entries * (number - 1) / count, entries * number / count};
}

std::string part_text(const Part& part) {
  return concat(part.number, "/", part.count);
}

Result<Part> parse_part(const std::string& text) {
  const std::vector<std::string> pieces = split(text, '/');
  Part part;
  const bool is_sane = pieces.size() == 2 && parse_int(pieces[0], &part.number) &&
                       parse_int(pieces[1], &part.count) && part.number >= 1 && part.number <= part.count &&
                       part.count <= kMostParts;
  if (is_sane) return part;
  return misuse("ingest", "--part ", printable(text),
                "; give its number and how many there are, as 3/16: 1/16 to ", "16/16, and at most ",
                kMostParts);
}

Status check_part(const Part& part, const FrozenList& list) {
  if (part.count <= list.entry_count()) return {};
  return misuse("ingest", "--part ", part_text(part), ", and there are ", list.entry_count(),
                " files; make at most so many parts");
}

Status save_part(const PartFile& part, const std::string& file) {
  Json json = json_of(part);
  json.set("checksum", hash_of(json.dump()));
  return formats::write_file(file, json.dump(1) + "\n");
}

Result<PartFile> load_part(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(Json json, formats::read_json(file));
  const Status damaged(ErrorCode::kCorrupt, concat("[ingest] ", file, " is damaged; ingest this part again"));
  if (json["format"].as_string() != "dlpipe-part") return damaged;
  if (json["version"].as_int() != kPartVersion)
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", file, " is of version ", json["version"].as_int(),
                         "; this dlpipe knows ", kPartVersion));
  PartFile part;
  part.part = {json["part"].as_int(), json["parts"].as_int()};
  part.options = json["options"].as_string();
  part.source = json["source"].as_string();
  part.list = json["list"].as_string();
  part.map_bytes = static_cast<uint64_t>(json["map_bytes"].as_int());
  part.files = json["files"].as_int();
  for (const Json& warning : json["warnings"].items()) part.warnings.push_back(warning.as_string());
  for (const Json& split : json["splits"].items()) {
    PartFile::Split& one = part.splits.emplace_back();
    one.name = split["name"].as_string();
    one.entries = static_cast<uint64_t>(split["entries"].as_int());
    one.range = {static_cast<uint64_t>(split["begin"].as_int()),
                 static_cast<uint64_t>(split["end"].as_int())};
    for (const Json& commit : split["commits"].items()) one.commits.push_back(commit_of(commit));
  }
  if (json["checksum"].as_string() != hash_of(json_of(part).dump())) return damaged;
  return part;
}

Result<PartNotes> PartNotes::begin(const IngestOptions& options, const FrozenList& list, std::string file) {
  PartNotes notes;
  notes.file_ = std::move(file);
  if (std::error_code ignored; std::filesystem::exists(notes.file_, ignored)) {
    DLPIPE_ASSIGN_OR_RETURN(notes.part_, load_part(notes.file_));
    return notes;
  }
  const Part part = *options.part;
  IngestOptions whole = options;
  whole.part.reset();
  notes.part_ = {.part = part,
                 .options = canonical_options(whole),
                 .source = source_hash(list),
                 .list = list_hash(options, list),
                 .map_bytes = list.map_bytes,
                 .files = list.entry_count(),
                 .warnings = list.warnings,
                 .splits = {}};
  for (const FrozenSplit& split : list.splits) {
    notes.part_.splits.push_back(
        {split.name, split.entries.size(), range_of(part, split.entries.size()), {}});
  }
  return notes;
}

PartFile::Split& PartNotes::find(const std::string& split) {
  return *std::find_if(part_.splits.begin(), part_.splits.end(),
                       [&](const PartFile::Split& one) { return one.name == split; });
}

PartRange PartNotes::range(const std::string& split) {
  return find(split).range;
}

int64_t PartNotes::entry_count() const {
  int64_t count = 0;
  for (const PartFile::Split& split : part_.splits)
    count += static_cast<int64_t>(split.range.end - split.range.begin);
  return count;
}

void PartNotes::go_on(const std::string& split, uint64_t position) {
  std::erase_if(find(split).commits, [&](const PartFile::Commit& commit) { return commit.end > position; });
}

Status PartNotes::note(const std::string& split, const PartFile::Commit& commit) {
  find(split).commits.push_back(commit);
  return save_part(part_, file_);
}

}  // namespace dlpipe::ingest
