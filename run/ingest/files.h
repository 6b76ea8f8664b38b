// Files that appear whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::ingest {

/// Writes FILE.new, fsyncs it, renames it to FILE and fsyncs the directory.
Status write_file_durably(const std::string& file, std::string_view text);
Status sync_directory(const std::string& directory);
/// Renames and fsyncs the directory that holds both.
Status rename_durably(const std::string& from, const std::string& to);
/// LMDB begins an environment with one write of two pages. A kill in the middle of it leaves a data.mdb that is no
/// environment, and in which nothing was committed: this removes it.
Status drop_unbegun_environment(const std::string& directory);
/// The directory that holds `path` ("." for a bare name).
std::string parent_of(const std::string& path);

}  // namespace dlpipe::ingest
