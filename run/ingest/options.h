// An ingest's options as text: parsing and checking their values, and the canonical form that a resumed ingest is compared with.
// Also its report as text. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/ingest.h"

namespace dlpipe::ingest {

/// What `--json` prints (docs/json.md).
std::string to_json(const IngestReport& report);
/// The first skipped files and why, for a warning; "" if there are none.
std::string skipped_text(const IngestReport& report);

Result<Store> parse_store(const std::string& name);             // auto, jpeg, raw, link
Result<JpegLayout> parse_jpeg_layout(const std::string& name);  // auto, standard, restart, coefficients...
Result<OnError> parse_on_error(const std::string& name);        // auto, skip, stop
Result<Dedup> parse_dedup(const std::string& name);             // off, drop, group
/// "white", "black", "#ffcc00": red, green, blue.
Result<std::array<uint8_t, 3>> parse_background(const std::string& text);
/// "3/16"; kMisuse for invalid parts.
Result<Part> parse_part(const std::string& text);
/// If not all linked images of a split are decoded, this many, or up to twice as many, are decoded for mean and standard
/// deviation. They are evenly spread over the list.
inline constexpr uint64_t kDecodedLinks = 512;
inline constexpr int64_t kMostParts = 65536;
/// "0.9,0.1" -> {0.9, 0.1}; two or three positive fractions that sum to 1.
Result<std::vector<double>> parse_split(const std::string& text);

/// kMisuse names the first invalid option.
Status check_options(const IngestOptions& options);
/// SRC as it was given, for messages.
std::string sources_text(const IngestOptions& options);
/// JSON of every option that changes the result (not: on_error, window, jobs, map_bytes).
std::string canonical_options(const IngestOptions& options);
/// "--quality 90, now 80" for the first difference; "" when equal.
std::string first_difference(const std::string& was, const std::string& is);

}  // namespace dlpipe::ingest
