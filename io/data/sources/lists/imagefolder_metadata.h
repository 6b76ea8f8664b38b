// The metadata files of an imagefolder: which there are, and their rows as one list. For imagefolder.cpp.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"

namespace dlpipe::data::imagefolder {

inline constexpr std::array<const char*, 3> kMetadataNames = {"metadata.csv", "metadata.jsonl",
                                                              "metadata.parquet"};
inline constexpr std::string_view kFileName = "file_name";

/// Whether a column of this name holds names of files: file_name, or NAME_file_name.
bool names_files(std::string_view column);
/// SRC, or its folder data, in which published repositories have their splits; "" where neither has metadata.
std::string root_in(const std::string& path);

/// `files` are paths of metadata files below `root`, sorted. Those whose first line has no column of files go, with a
/// warning: others call their lists metadata.csv, too. kUnsupported for Parquet, kMisuse for two in one folder.
Status check_metadata_files(const std::string& root, std::vector<std::string>& files,
                            std::vector<std::string>& warnings);
/// Puts the rows of one of them behind those of `list`, and its columns beside the others. Names of files are below `root`
/// then. kCorrupt names a line.
Status add_metadata_file(const std::string& root, const std::string& file, ReadList& list);

}  // namespace dlpipe::data::imagefolder
