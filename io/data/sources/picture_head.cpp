#include "dlpipe/io/data/sources/picture_head.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/record.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

/// Reads on until `bytes` has `size` of the picture's.
Status read_on(const RegularFile& file, const Link& link, size_t size, std::vector<std::byte>& bytes) {
  size_t done = bytes.size();
  bytes.resize(size);
  while (done < size) {
    const ssize_t count =
        ::pread(file.fd(), bytes.data() + done, size - done, static_cast<off_t>(link.offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno("ingest", concat("cannot read ", link.file), errno);
    if (count == 0) return changed_since_listed(link.file, "became shorter");
    done += static_cast<size_t>(count);
  }
  return {};
}

}  // namespace

Result<PictureHead> read_head(const Link& link, int64_t modified_ns) {
  const auto file = RegularFile::open("ingest", link.file);
  if (file.status().code() == ErrorCode::kNotFound) return changed_since_listed(link.file, "was removed");
  if (!file.ok()) return file.status();
  const uint64_t end = link.offset + link.size_bytes;
  const FileStamp& stamp = file->stamp();
  if (stamp.modified_ns != modified_ns || (link.is_whole ? stamp.size_bytes != end : stamp.size_bytes < end))
    return changed_since_listed(link.file, "changed");
  if (link.size_bytes > kMostPictureBytes)
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(link.file), " has ", human_bytes(link.size_bytes),
                         "; at most ", human_bytes(kMostPictureBytes), " are read as one"));
  PictureHead head;
  constexpr uint64_t kLargeHead = 256 << 10;  // a JPEG's preview and colour profile stand before its size
  for (const uint64_t size : {uint64_t{kLateBegin}, kLargeHead, link.size_bytes}) {
    DLPIPE_RETURN_IF_ERROR(read_on(*file, link, std::min(size, link.size_bytes), head.bytes));
    auto info = probe_begin(head.bytes, link.size_bytes);
    if (!info.ok() && head.bytes.size() < link.size_bytes) continue;
    if (!file->is_unchanged()) return changed_since_listed(link.file, "changed");
    DLPIPE_ASSIGN_OR_RETURN(head.info, std::move(info));
    break;
  }
  return head;
}

}  // namespace dlpipe::data
