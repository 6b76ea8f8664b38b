// `ingest --dedup`: finds alike images among the files of SRC. This happens before anything is stored, because the list of files
// and their splits is frozen then. Decodes every file one more time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "dlpipe/source.h"
#include "io/data/look_alike.h"

namespace dlpipe::ingest {

/// The beginning of an entry's problem if --dedup drop leaves it out; the path of the other image follows.
inline constexpr std::string_view kCopyOf = "a copy of ";
inline bool is_copy(const data::SourceEntry& entry) {
  return entry.problem.starts_with(kCopyOf);
}

/// Empty without --dedup.
struct AlikeEntries {
  std::vector<data::AlikePair> pairs;  // by the entries' numbers in the listing
  /// With --dedup drop: for each entry, the entry that it is a copy of; -1: none. Copies also have a problem.
  std::vector<int64_t> copy_of;
  std::vector<std::string> warnings;
};
/// Unreadable images are not alike to others. Of alike images, the first by path is the original and the others are its copies.
Result<AlikeEntries> find_alike(const IngestOptions& options, const data::Source& source,
                                data::SourceListing& listing,
                                const std::function<void(const IngestProgress&)>& progress);

}  // namespace dlpipe::ingest
