// What lies where in a tar archive: POSIX ustar and pax, GNU and the old forms. Nothing is unpacked, and no size is
// believed before it is compared with the archive's. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/bytes/archive_bytes.h"
#include "dlpipe/io/data/sources/read_budget.h"

namespace dlpipe::data {

struct TarMember {
  std::string name;  // without ./ and / before it, never with '..' in it
  uint64_t begin = 0;
  uint64_t size_bytes = 0;
  bool is_link = false;  // a picture's name alone: its bytes are elsewhere, and nowhere in the archive
};

struct TarIndex {
  std::vector<TarMember>
      members;  // files and links called as pictures, as they follow each other; of files of one name the last
  std::vector<std::string> folders;
  std::map<std::string, int64_t> left_aside;  // kind -> how many: other links, devices, hidden names, ...
  /// Not empty: the archive is damaged or cut short here, and what stood behind is lost. A whole sentence.
  std::string problem;
  int64_t replaced = 0;           // members that a later one of the same name replaces
  uint64_t bytes_behind_end = 0;  // behind the archive's end mark, not zero: another archive was appended
};

/// Of the `size` bytes behind `begin` (an archive may hold archives). Errors are those of reading, and the budget's; what is wrong
/// with the archive itself is TarIndex::problem.
Result<TarIndex> index_tar(ArchiveBytes::Scan& scan, uint64_t begin, uint64_t size, ReadBudget& budget);

/// True for .tar, .tar.gz, .tgz, .tar.zst and .tzst.
bool has_tar_name(const std::string& path);
/// The name without its folders and that ending.
std::string tar_stem(const std::string& path);

}  // namespace dlpipe::data
