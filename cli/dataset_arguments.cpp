#include "dlpipe/cli/dataset_arguments.h"

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

}  // namespace dlpipe::cli
