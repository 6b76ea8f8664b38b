// SRC as users give it: one or several inputs, with {000..127} and quoted wildcards, a file that lists them, or a folder of
// archives. Several inputs become one source: classes are merged by name, and a sample's path begins with its input's name.
//
// Threads: the same as for Source.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"

namespace dlpipe::data {

struct SourceInput {
  std::string path;          // for an address, the part that may be shown
  std::string split = {};    // by its folder's or its own name: "train", "val", "test"; usually empty
  std::string address = {};  // in full; "": a path
};

struct SourceInputs {
  std::vector<SourceInput> inputs;
  std::vector<std::string> notes;  // whole messages: what was decided
};

/// "shard-{00..03}.tar" as four names, "{a,b}.tar" as two; without braces, the text itself. kMisuse for more than a million.
Result<std::vector<std::string>> expand_braces(const std::string& text);
/// Expands `given` and the lines of `list` (empty: none; paths below the list's folder) to inputs. kNotFound names patterns
/// without a match; kMisuse names a folder with both archives and images, and an input given twice.
Result<SourceInputs> expand_inputs(std::span<const std::string> given, const std::string& list, bool splits);
/// `options`, except its path, which comes from `given` and `list`.
Result<std::unique_ptr<Source>> open_sources(std::span<const std::string> given, const std::string& list,
                                             const SourceOptions& options);

}  // namespace dlpipe::data
