// The states of an ingest on disk, and the steps between them:
//
//   nothing -> DST.partial/ingest.list -> environments filled -> provenance.json -> list removed -> DST
//
// The first and the last step are io/data/partial_directory.h's. Each step is one rename or removal, made durable before the next, so a killed ingest is always in one
// state.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/duplicates.h"
#include "dlpipe/io/data/partial_directory.h"
#include "dlpipe/run/ingest/ingest.h"
#include "dlpipe/run/ingest/made_splits.h"

namespace dlpipe::ingest {

inline constexpr const char* kListName = "ingest.list";

struct Paths {
  explicit Paths(std::string destination);
  std::string destination;  // without trailing slashes
  std::string partial;      // destination + ".partial"
  std::string list;
  std::string provenance;  // in partial
  std::string split(const std::string& root, const std::string& name) const;
};

/// What a sealed or published dataset was made of.
struct Provenance {
  std::string options;
  std::string source;  // source_hash of its files; "" of datasets that don't know it
  int64_t files = 0;
  std::vector<std::string> splits;  // names; "" alone when there is one dataset
};
/// Writes provenance.json (where from, when, on what; outside of the dataset's id) and removes the list.
Status seal(const Paths& paths, const Provenance& made_of, const IngestReport& report);
Result<Provenance> read_provenance(const std::string& file);
/// Opens the finished environments below `root` for the report: sizes, ids, skipped files.
Status describe(const Paths& paths, const std::string& root, const std::vector<std::string>& splits,
                IngestReport& report);

/// Adds warnings of images in several splits or classes to the report, and hands them to `on_warning`, which may be empty. `images`:
/// what is known of the datasets below `root`; the rest is read.
Status find_duplicates(std::string_view area, const Paths& paths, const std::string& root,
                       const std::vector<std::string>& splits, data::StoredImages& images,
                       const std::function<void(const std::string&)>& on_warning, IngestReport& report);

/// Where the splits are a train and a test, as many datasets are published: adds a warning that training would not validate, as
/// find_duplicates does.
Status warn_of_no_validation(std::string_view area, const Paths& paths, const std::string& root,
                             const std::vector<std::string>& splits,
                             const std::function<void(const std::string&)>& on_warning, IngestReport& report);

/// Where nothing could be stored: leaves nothing that looks like a dataset, not even a partial one.
Status check_not_empty(data::PartialDirectory& partial, const IngestReport& report);

}  // namespace dlpipe::ingest
