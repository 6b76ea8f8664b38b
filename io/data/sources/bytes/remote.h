// Bytes behind an address, https://, http:// or s3://, in order, by libcurl. A connection that is cut, a server that is busy
// (429, 5xx) or silent is asked again, from where the bytes ended, after longer and longer waits, and a warning says so; a file that changed
// meanwhile, or that the server doesn't say about whether it did, is an error: bytes of two files are never
// joined. What a server leaves of a part that it was asked for is asked for at once.
//
// Redirections are followed, ten at most, never from https to http; keys, tokens and passwords go to the origin (scheme, host and
// port) of the address alone, and not back to it once another was asked.
//
// s3:// takes AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL from the
// environment; without keys it asks unsigned, as public buckets want. Neither these nor what stands behind a ? or before an @
// in an address is printed or stored: everything but this file knows shown_address() alone.
//
// A RemoteStream belongs to one thread. Without libcurl at configure time, open() says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// Whether a path is an address: it has "://".
bool is_address(std::string_view path);
/// Without user, password and query: "https://host/data/shard-0.tar".
std::string shown_address(std::string_view address);

/// A part of a file, of which it must be.
struct RemotePart {
  uint64_t begin = 0;
  uint64_t end = 0;            // 0: the file's end
  std::string validator = {};  // RemoteStream::validator() of the file; "": whatever it is
};

class RemoteStream {
 public:
  /// Asks for nothing yet. kMisuse for other schemes, and an address without a file.
  static Result<std::unique_ptr<RemoteStream>> open(const std::string& address,
                                                    std::function<bool()> stop_requested,
                                                    RemotePart part = {});
  virtual ~RemoteStream() = default;
  /// Fills `to` with the next bytes: how many; 0 at the end. kNotFound, kPermission as the server says; kIo after the
  /// last attempt; kChanged; kCancelled.
  virtual Result<size_t> read(std::span<std::byte> to) = 0;
  /// What the server says of the file, once the first bytes were read. Its time; 0 where it doesn't.
  virtual int64_t modified_ns() const = 0;
  /// What tells one content of the file from another: a strong ETag, or the time as a text; "" where it says neither.
  virtual const std::string& validator() const = 0;
  /// Bytes of the whole file, where the server gives parts of it; else 0.
  virtual uint64_t parted_bytes() const = 0;
};

}  // namespace dlpipe::data
