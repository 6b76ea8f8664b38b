// SRC as people give it: one or several inputs, with {000..127} and wildcards in quotes, a file that lists them, or a
// folder of archives. Several become one source: classes are put together by name, and a sample's path begins with its
// input's name.
//
// Threads: as Source.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

struct SourceInput {
  std::string path;          // of an address what may be shown of it
  std::string split = {};    // by its folder's or its own name: "train", "val", "test"; mostly empty
  std::string address = {};  // the whole of it; "": a path
};

struct SourceInputs {
  std::vector<SourceInput> inputs;
  std::vector<std::string> notes;  // whole messages: what was decided
};

/// "shard-{00..03}.tar" as four names, "{a,b}.tar" as two; without braces the text itself. kMisuse for more than a
/// million.
Result<std::vector<std::string>> expand_braces(const std::string& text);
/// The inputs that `given` and the lines of `list` (empty: none; paths below the list's folder) stand for. kNotFound
/// names what matches nothing; kMisuse a folder that holds both archives and pictures, and an input given twice.
Result<SourceInputs> expand_inputs(std::span<const std::string> given, const std::string& list, bool splits);
/// `options` but for its path, which comes from `given` and `list`.
Result<std::unique_ptr<Source>> open_sources(std::span<const std::string> given, const std::string& list,
                                             const SourceOptions& options);

}  // namespace dlpipe::data
