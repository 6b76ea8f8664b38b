// What commands that take a dataset or a folder of splits share.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/ingest/made_splits.h"

namespace dlpipe::cli {

struct NamedDataset {
  std::string split;  // "" when the directory is one dataset
  std::shared_ptr<const data::Dataset> dataset;
};

/// DST itself, or all of its splits, sorted by name.
Result<std::vector<NamedDataset>> open_all(const std::string& directory,
                                           data::Dataset::IdCheck check = data::Dataset::IdCheck::kRefuse);

/// What provenance.json beside the datasets of `directory` says otherwise than these. Nothing where there is no such file; one that
/// can't be read is warned of.
struct UnlikeProvenance {
  std::vector<ingest::MadeSplit> lost;   // not there
  std::vector<ingest::MadeSplit> other;  // there, with another id
  bool empty() const { return lost.empty() && other.empty(); }
};
UnlikeProvenance compare_with_provenance(std::string_view area, const std::string& directory,
                                         const std::vector<NamedDataset>& datasets);
/// "train, of 160 samples, is not there"
std::string text_of_lost(const ingest::MadeSplit& split);
/// Their names, samples and ids, as --json writes them.
formats::Json json_of_splits(const std::vector<ingest::MadeSplit>& splits);
/// Warns of lost splits: what is answered is of the others alone.
void warn_of_lost(std::string_view area, const std::string& directory, const UnlikeProvenance& unlike);

}  // namespace dlpipe::cli
