#include "dlpipe/cli/dataset_arguments.h"

#include <algorithm>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/run/input/path_kind.h"

namespace dlpipe::cli {

Result<std::vector<NamedDataset>> open_all(const std::string& directory, data::Dataset::IdCheck check) {
  DLPIPE_RETURN_IF_ERROR(run::refuse_other_kind("dataset", directory, run::Wanted::kDataset));
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> splits, data::split_names(directory));
  if (splits.empty()) splits.push_back("");
  std::vector<NamedDataset> all;
  for (const std::string& split : splits) {
    DLPIPE_ASSIGN_OR_RETURN(auto dataset, data::Dataset::open(directory, split, check));
    all.push_back({split, std::move(dataset)});
  }
  return all;
}

UnlikeProvenance compare_with_provenance(std::string_view area, const std::string& directory,
                                         const std::vector<NamedDataset>& datasets) {
  const auto made = ingest::made_splits(concat(directory, "/", ingest::kProvenanceName));
  UnlikeProvenance unlike;
  if (made.status().code() == ErrorCode::kNotFound) return unlike;
  if (!made.ok()) {
    print_warning(concat("[", area, "] which splits were made isn't known: ", made.status().message()));
    return unlike;
  }
  for (const ingest::MadeSplit& split : *made) {
    const auto found = std::find_if(datasets.begin(), datasets.end(),
                                    [&](const NamedDataset& one) { return one.split == split.name; });
    if (found == datasets.end())
      unlike.lost.push_back(split);
    else if (found->dataset->id() != split.id)
      unlike.other.push_back(split);
  }
  return unlike;
}

std::string text_of_lost(const ingest::MadeSplit& split) {
  return concat(printable(split.name), ", of ", human_count(split.samples),
                split.samples == 1 ? " sample" : " samples", ", is not there");
}

formats::Json json_of_splits(const std::vector<ingest::MadeSplit>& splits) {
  formats::Json all = formats::Json::array();
  for (const ingest::MadeSplit& split : splits)
    all.push_back(
        formats::Json::object({{"split", split.name}, {"samples", split.samples}, {"id", split.id}}));
  return all;
}

void warn_of_lost(std::string_view area, const std::string& directory, const UnlikeProvenance& unlike) {
  for (const ingest::MadeSplit& split : unlike.lost)
    print_warning(concat("[", area, "] ", text_of_lost(split), ", though ", printable(directory), "/",
                         ingest::kProvenanceName, " names it"));
}

}  // namespace dlpipe::cli
