#include "dlpipe/run/ingest/options.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "dlpipe/base/named_values.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/bytes/remote.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/ingest/draw.h"

namespace dlpipe::ingest {

using formats::Json;

static constexpr Named<Store> kStoreNames[] = {
    {"auto", Store::kAuto}, {"jpeg", Store::kJpeg}, {"raw", Store::kRaw}, {"link", Store::kLink}};
static constexpr Named<JpegLayout> kJpegNames[] = {{"auto", JpegLayout::kAuto},
                                                   {"standard", JpegLayout::kStandard},
                                                   {"restart", JpegLayout::kRestart},
                                                   {"coefficients", JpegLayout::kCoefficients},
                                                   {"coefficients-dense", JpegLayout::kDenseCoefficients}};
static constexpr Named<OnError> kOnErrorNames[] = {
    {"auto", OnError::kAuto}, {"skip", OnError::kSkip}, {"stop", OnError::kStop}};

Result<Store> parse_store(const std::string& name) {
  return value_named(kStoreNames, name, "ingest", "--store");
}

Result<JpegLayout> parse_jpeg_layout(const std::string& name) {
  return value_named(kJpegNames, name, "ingest", "--jpeg");
}

Result<OnError> parse_on_error(const std::string& name) {
  return value_named(kOnErrorNames, name, "ingest", "--on-error");
}

Result<std::array<uint8_t, 3>> parse_background(const std::string& text) {
  const std::string hex = text == "white" ? "#ffffff" : text == "black" ? "#000000" : text;
  std::array<uint8_t, 3> colour{};
  bool sane = hex.size() == 7 && hex[0] == '#';
  for (size_t i = 0; sane && i < 6; ++i) {
    const size_t digit = std::string_view("0123456789abcdef")
                             .find(static_cast<char>(std::tolower(static_cast<unsigned char>(hex[i + 1]))));
    sane = digit != std::string_view::npos;
    colour[i / 2] = static_cast<uint8_t>(colour[i / 2] * 16 + digit);
  }
  if (sane) return colour;
  return misuse("ingest", "--background ", printable(text), "; give white, black or a colour as #ffcc00");
}

Result<std::vector<double>> parse_split(const std::string& text) {
  std::vector<double> fractions;
  double sum = 0;
  bool sane = true;
  for (const std::string& piece : split(text, ',')) {
    double value = 0;
    sane = sane && parse_double(trim(piece), &value) && value > 0 && value < 1;
    fractions.push_back(value);
    sum += value;
  }
  if (!sane || fractions.size() < 2 || fractions.size() > 3 || std::abs(sum - 1) > 1e-6)
    return misuse("ingest", "--split ", text,
                  "; give two or three fractions that sum to 1: 0.9,0.1 for train "
                  "and val, 0.8,0.1,0.1 for train, val and test");
  return fractions;
}

// Linked pictures are used as they are.
static Status check_link(const IngestOptions& options) {
  if (options.store != Store::kLink)
    return options.late_checksums ? misuse("ingest", "late checksums are for linked pictures") : Status();
  const bool keeps_jpegs = options.jpeg == JpegLayout::kAuto || options.jpeg == JpegLayout::kStandard;
  const char* other = !keeps_jpegs             ? "--jpeg"
                      : options.resize_max > 0 ? "--resize-max"
                      : options.zstd           ? "--zstd"
                      : options.background     ? "--background"
                                               : nullptr;
  if (other == nullptr) return {};
  return misuse("ingest", "--store link leaves the pictures as they are; leave ", other,
                " or --store link out");
}

Status check_options(const IngestOptions& options) {
  const bool has_source = !options.list.empty() || !options.sources.empty();
  const bool has_empty =
      std::find(options.sources.begin(), options.sources.end(), "") != options.sources.end();
  if (!has_source || has_empty || options.destination.empty()) return misuse("ingest", "give SRC and DST");
  if (options.quality < 1 || options.quality > 100)
    return misuse("ingest", "--quality ", options.quality, "; give 1 to 100");
  if (options.resize_max < 0)
    return misuse("ingest", "--resize-max ", options.resize_max, "; give pixels, or 0 for none");
  DLPIPE_RETURN_IF_ERROR(check_link(options));
  DLPIPE_RETURN_IF_ERROR(check_limit(options.limit));
  if (options.jobs < 0 || options.jobs > 4096)
    return misuse("ingest", "--threads ", options.jobs, "; give 0 to 4096");
  if (options.max_pixels < 1)
    return misuse("ingest", "--max-pixels ", options.max_pixels, "; give at least 1");
  if (options.commit_bytes == 0 || options.commit_entries < 1)
    return misuse("ingest", "transactions of no size");
  constexpr uint64_t kSmallestMap = 1 << 20;
  if (options.map_bytes != 0 && options.map_bytes < kSmallestMap)
    return misuse("ingest", "--map-size ", human_bytes(options.map_bytes),
                  "; give at least 1M, or 0 to let it be found");
  return {};
}

std::string sources_text(const IngestOptions& options) {
  if (options.sources.empty()) return options.list;
  const size_t more = options.sources.size() - 1;
  return concat(printable(data::shown_address(options.sources[0])),
                more == 0 ? "" : concat(" and ", more, " more"));
}

std::string canonical_options(const IngestOptions& options) {
  std::error_code ignored;
  const auto absolute = [&](const std::string& path) {
    if (data::is_address(path)) return data::shown_address(path);
    return path.empty() || path == "-" ? path : std::filesystem::weakly_canonical(path, ignored).string();
  };
  Json sources = Json::array();
  for (const std::string& source : options.sources) sources.push_back(absolute(source));
  Json split = Json::array();
  for (const double fraction : options.split) split.push_back(fraction);
  Json json =
      Json::object({{"SRC", options.sources.size() == 1 ? Json(absolute(options.sources[0])) : sources},
                    {"--manifest", absolute(options.manifest)},
                    {"--classes-from", absolute(options.classes_from)},
                    {"--resize-max", options.resize_max},
                    {"--quality", options.quality},
                    {"--store", name_of(kStoreNames, options.store)},
                    {"--jpeg", name_of(kJpegNames, options.jpeg)},
                    {"--trust", options.trust},
                    {"--zstd", options.zstd},
                    {"--limit", options.limit},
                    {"--split", std::move(split)},
                    {"--no-splits", options.no_splits},
                    {"--length", options.length},
                    {"--seed", static_cast<int64_t>(options.seed)},
                    {"--max-pixels", options.max_pixels},
                    {"commit_bytes", static_cast<int64_t>(options.commit_bytes)},
                    {"commit_entries", options.commit_entries}});
  // Options that came later stand here only where they are given, so that older ones compare as equal.
  if (!options.list.empty()) json.set("--list", absolute(options.list));
  if (!options.label.empty()) json.set("--label", options.label);
  if (!options.fields.empty())
    json.set("--field", Json(Json::Array(options.fields.begin(), options.fields.end())));
  if (!options.labels.empty()) json.set("--labels", absolute(options.labels));
  if (options.background) {
    const auto& [red, green, blue] = *options.background;
    json.set("--background", concat(int{red}, ",", int{green}, ",", int{blue}));
  }
  if (options.late_checksums) json.set("late_checksums", true);
  if (!options.images.empty()) json.set("--images", absolute(options.images));
  if (options.part) json.set("--part", concat(options.part->number, "/", options.part->count));
  return json.dump();
}

// As it is typed: 0.9,0.1, not [0.9,0.1].
static std::string typed(const Json& value) {
  std::string text;
  for (const Json& item : value.items()) text += concat(text.empty() ? "" : ",", item.dump());
  if (value.is_array()) return text.empty() ? "not set" : text;
  return value == Json("") || value == Json(int64_t{-1}) ? "not set" : value.dump();  // -1: all
}

std::string first_difference(const std::string& was, const std::string& is) {
  if (was == is) return {};
  const Result<Json> before = Json::parse(was);
  const Result<Json> after = Json::parse(is);
  if (!before.ok() || !after.ok() || !before->is_object()) return "options that can't be read";
  for (const auto& [name, value] : after->members()) {
    const bool is_off = value == Json(false);  // flags that came later were off before
    if (!before->contains(name) && is_off) continue;
    if (!before->contains(name)) return concat(name, " not set, now ", typed(value));
    if ((*before)[name] != value) return concat(name, " ", typed((*before)[name]), ", now ", typed(value));
  }
  for (const auto& [name, value] : before->members()) {
    if (!after->contains(name)) return concat(name, " ", typed(value), ", now not set");
  }
  return {};
}

}  // namespace dlpipe::ingest
