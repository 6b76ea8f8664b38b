#include "dlpipe/io/data/sources/bytes/gzip.h"

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/bytes/inflater.h"

namespace dlpipe::data {

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Status gunzip(std::span<const std::byte> bytes, std::span<std::byte> out, bool whole,
              const std::string& name) {
  DLPIPE_ASSIGN_OR_RETURN(Inflater inflater, Inflater::begin(Inflater::Form::kGzip));
  std::byte one_too_many{};  // room for it shows an overlong stream, and lets a right one come to its end
  const size_t room = out.size() + (whole ? 1 : 0);
  size_t done = 0;
  bool is_end = false;
  while (!is_end && done < room) {
    const size_t left = bytes.size();
    const auto step =
        inflater.step(bytes, done < out.size() ? out.subspan(done) : std::span(&one_too_many, 1));
    if (!step.ok())
      return Status(ErrorCode::kCorrupt,
                    concat("[ingest] ", name, ": damaged gzip stream: ", step.status().message()));
    done += step->made;
    is_end = step->is_end;
    if (step->made == 0 && bytes.size() == left) break;
  }
  const bool complete = !whole || (is_end && bytes.empty());
  if (done == out.size() && complete) return {};
  return Status(ErrorCode::kCorrupt,
                concat("[ingest] ", name, " holds ",
                       done > out.size()   ? "more than "
                       : done < out.size() ? "less than "
                                           : "not just ",
                       out.size(), " bytes that its header asks for; download it again"));
}

}  // namespace dlpipe::data
