// From DST.partial to DST: recovery after a kill, provenance.json, and the report.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "io/data/partial_directory.h"
#include "io/data/verify.h"

namespace dlpipe::ingest {

/// LMDB starts an environment with one write of two pages. A kill in the middle of it leaves a data.mdb that is not an
/// environment and has no commits; this removes it.
Status drop_unbegun_environment(const std::string& directory);

// The splits that an ingest, a join or a writer made, from the provenance.json next to them; only this file reveals a missing
// split.

inline constexpr const char* kProvenanceName = "provenance.json";

struct MadeSplit {
  std::string name;  // "" when there is one dataset
  int64_t samples = 0;
  std::string id;
};

/// Reads a provenance.json; kNotFound if there is none.
Result<std::vector<MadeSplit>> made_splits(const std::string& file);

// The states of an ingest on disk, and the steps between them:
//
//   nothing -> DST.partial/ingest.list -> environments filled -> provenance.json -> list removed -> DST
//
// The first and the last step are in io/data/partial_directory.h. Each step is one rename or removal that is on disk before the
// next one begins, so a killed ingest is always in one of these states.

inline constexpr const char* kListName = "ingest.list";

struct Paths {
  explicit Paths(std::string destination);
  std::string destination;  // without trailing slashes
  std::string partial;      // destination + ".partial"
  std::string list;
  std::string provenance;  // in partial
  std::string split(const std::string& root, const std::string& name) const;
};

/// What a sealed or published dataset was made from.
struct Provenance {
  std::string options;
  std::string source;  // source_hash of its files; "" if unknown
  int64_t files = 0;
  std::vector<std::string> splits;  // names; "" alone when there is one dataset
};
/// Writes provenance.json (source, time and machine; not part of the dataset's id) and removes the list.
Status seal(const Paths& paths, const Provenance& made_of, const IngestReport& report);
Result<Provenance> read_provenance(const std::string& file);
/// Opens the finished environments below `root` for the report: sizes, ids, skipped files.
Status describe(const Paths& paths, const std::string& root, const std::vector<std::string>& splits,
                IngestReport& report);

struct DuplicateSearch {
  std::string_view area;                   // of messages
  int look_threads = 0;                    // for near copies in other splits; 0: no search for them
  std::string cure = "remove the copies";  // advice for copies in several splits
};
/// Adds warnings about images in several splits or classes to the report, and passes them to `on_warning`, which may be empty.
/// `images`: what is known about the datasets below `root`; the rest is read.
Status find_duplicates(const DuplicateSearch& search, const Paths& paths, const std::string& root,
                       const std::vector<std::string>& splits, data::StoredImages& images,
                       const std::function<void(const std::string&)>& on_warning, IngestReport& report);

/// If the splits are train and test, as in many published datasets: adds a warning that training would not validate, like
/// find_duplicates.
void warn_of_no_validation(std::string_view area, const Paths& paths, const std::vector<std::string>& splits,
                           const std::function<void(const std::string&)>& on_warning, IngestReport& report);

/// If a split has no sample, removes the partial dataset and returns an error.
Status check_not_empty(data::PartialDirectory& partial, const IngestReport& report);

}  // namespace dlpipe::ingest
