#include "dlpipe/run/ingest/made_splits.h"

#include "dlpipe/io/formats/json.h"

namespace dlpipe::ingest {

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

}  // namespace dlpipe::ingest
