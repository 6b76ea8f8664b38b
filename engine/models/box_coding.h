// A coding of boxes (dlpipe/models.h) as JSON: in a captured model's metadata, and in checkpoints.
#pragma once

#include <string_view>

#include "dlpipe/error.h"
#include "dlpipe/models.h"
#include "io/formats/json.h"

namespace dlpipe::engine {

/// The metadata of a graph that says so of a captured detector's rows.
inline constexpr const char* kBoxesKey = "box_coding";
/// And the one that says how its images are normalised: an op of an augmentation.
inline constexpr const char* kNormalizeKey = "normalization";

formats::Json box_coding_json(const BoxCoding& coding);
/// kCorrupt where a number is missing or impossible. Any name is taken: run/input/box_coding.h knows them.
Result<BoxCoding> box_coding_from(const formats::Json& json, std::string_view file);

}  // namespace dlpipe::engine
