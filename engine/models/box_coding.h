// BoxCoding (dlpipe/models.h) as JSON, for the metadata of captured models and for checkpoints.
#pragma once

#include <string_view>

#include "dlpipe/error.h"
#include "dlpipe/models.h"
#include "io/formats/json.h"

namespace dlpipe::engine {

/// The metadata key of a captured detector's BoxCoding.
inline constexpr const char* kBoxesKey = "box_coding";
/// The metadata key of how its images are normalised: an augmentation op, as text.
inline constexpr const char* kNormalizeKey = "normalization";

formats::Json box_coding_json(const BoxCoding& coding);
/// Returns kCorrupt if a number is missing or impossible. Accepts any name: run/input/box_coding.h checks it.
Result<BoxCoding> box_coding_from(const formats::Json& json, std::string_view file);

}  // namespace dlpipe::engine
