// The splits that an ingest, a join or a writer made, by the provenance.json beside them: what of a folder of splits is lost tells nothing
// else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::ingest {

inline constexpr const char* kProvenanceName = "provenance.json";

struct MadeSplit {
  std::string name;  // "" when there is one dataset
  int64_t samples = 0;
  std::string id;
};

/// Of a provenance.json; kNotFound where there is none.
Result<std::vector<MadeSplit>> made_splits(const std::string& file);

}  // namespace dlpipe::ingest
