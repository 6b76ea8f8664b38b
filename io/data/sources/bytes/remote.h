// Reads the bytes at an address (https://, http:// or s3://) in order, through libcurl. If a connection is cut, or a server is
// busy (429, 5xx) or silent, the request is repeated from where the bytes ended, after increasing waits and with a warning. The
// same response four times without a byte is an error, unless the server is busy; so are more than 128 KB of headers. It is an
// error if the file changed in the meantime, or if the server does not say whether it did: bytes of two files are never joined.
// If a server sends less than the requested range, the rest is requested at once.
//
// At most ten redirections are followed, never from https to http. Keys, tokens and passwords are sent only to the origin
// (scheme, host and port) of the address, and no longer after another origin was contacted.
//
// s3:// uses AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL from the environment;
// without keys, requests are unsigned, as for public buckets. Neither these nor anything after a ? or before an @ in an address
// is printed or stored: all other code sees only shown_address().
//
// A RemoteStream belongs to one thread. Without libcurl at configure time, open() fails. A RemoteFile reads at any offset of a
// file, from any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "dlpipe/error.h"

namespace dlpipe::data {

/// Whether a path is an address: it has "://".
bool is_address(std::string_view path);
/// Without user, password and query: "https://host/data/shard-0.tar".
std::string shown_address(std::string_view address);

/// A range of a file, and the validator that the file must have.
struct RemotePart {
  uint64_t begin = 0;
  uint64_t end = 0;            // 0: the file's end
  std::string validator = {};  // RemoteStream::validator() of the file; "": any
};

class RemoteStream {
 public:
  /// Sends no request yet. kMisuse for other schemes and for an address without a file.
  static Result<std::unique_ptr<RemoteStream>> open(const std::string& address,
                                                    std::function<bool()> stop_requested,
                                                    RemotePart part = {});
  virtual ~RemoteStream() = default;
  /// Fills `to` with the next bytes and returns how many; 0 at the end. kNotFound and kPermission as the server reports; kIo
  /// after the last attempt; kChanged; kCancelled.
  virtual Result<size_t> read(std::span<std::byte> to) = 0;
  /// What the server reports about the file, once the first bytes were read. Its time; 0 if unknown.
  virtual int64_t modified_ns() const = 0;
  /// Identifies the file's contents: a strong ETag, or the time as text; "" if the server sends neither.
  virtual const std::string& validator() const = 0;
  /// Bytes of the whole file if the server supports ranges; else 0.
  virtual uint64_t parted_bytes() const = 0;
};

// Addresses, and how s3:// is resolved. Pure functions; the environment is a parameter.

/// How to request a file.
struct RemoteRequest {
  std::string url;
  std::string shown;      // safe to print
  std::string login;      // "user:password" as the address has it, percent-encoded; never printed
  std::string key_id;     // "": unsigned
  std::string secret;     // never printed
  std::string token;      // of a session; "": none
  std::string signature;  // CURLOPT_AWS_SIGV4: "aws:amz:us-east-1:s3"
};

/// `environment` returns a variable's value, "" if it is not set. kMisuse says what is wrong with the address.
Result<RemoteRequest> request_for(const std::string& address,
                                  const std::function<std::string(const char*)>& environment);

/// Scheme, host and port of a URL, to which keys, tokens and passwords may be sent. "" if that is ambiguous, for example if it
/// has a login or a character that parsers read differently; no URL has this origin.
std::string origin_of(std::string_view url);
/// Whether a redirection leads from https to another scheme.
bool drops_encryption(std::string_view from, std::string_view to);

class RemoteFile;

/// Streams of the files that were read last; those of other files are released. Any thread.
class RemoteWindows {
 public:
  static constexpr size_t kMost = 4;
  void used(const std::shared_ptr<RemoteFile>& file);

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<RemoteFile>> files_ DLPIPE_GUARDED_BY(mutex_);  // most recently used last
};

/// A file at an address whose server supports ranges, without a local copy. Consecutive reads share a stream, whose last bytes
/// stay in memory because threads read slightly out of order; other reads are separate requests. All bytes come from the same
/// version of the file, else kChanged.
///
/// Threads that need the same stream wait for each other. Memory: kBehindBytes for each of the files that were read last
/// (RemoteWindows), and what keep() stores.
class RemoteFile : public std::enable_shared_from_this<RemoteFile> {
 public:
  /// `stream` covers the whole file, `begin` has the bytes that were already read, and the server supports ranges.
  RemoteFile(std::string address, std::function<bool()> stop_requested, std::unique_ptr<RemoteStream> stream,
             std::vector<std::byte> begin, std::shared_ptr<RemoteWindows> windows);

  uint64_t size_bytes() const { return size_; }
  /// Fills `to`, which must be inside the file. Errors as RemoteStream::read.
  Status read(uint64_t at, std::span<std::byte> to);
  /// Reads these bytes and keeps them in memory: for small pieces that are read again out of order.
  Status keep(uint64_t at, uint64_t size);
  void drop_kept();
  /// Releases the stream and its bytes.
  void forget();

  static constexpr uint64_t kBehindBytes = uint64_t{16} << 20;
  /// Bytes that are skipped by reading rather than with a new request.
  static constexpr uint64_t kSkipBytes = uint64_t{4} << 20;

 private:
  /// False if they are neither in memory nor reachable by continuing the stream.
  Result<bool> read_here(uint64_t at, std::span<std::byte> to) DLPIPE_REQUIRES(mutex_);
  Status pull(uint64_t end) DLPIPE_REQUIRES(mutex_);
  Status read_apart(uint64_t at, std::span<std::byte> to) const;
  uint64_t window_end() const DLPIPE_REQUIRES(mutex_) { return window_begin_ + window_.size(); }

  const std::string address_;
  const std::function<bool()> stop_requested_;
  const std::string validator_;
  const uint64_t size_;
  const std::shared_ptr<RemoteWindows> windows_;
  Mutex mutex_;
  std::unique_ptr<RemoteStream> stream_ DLPIPE_GUARDED_BY(mutex_);  // continues at window_end(); null: none
  std::vector<std::byte> window_ DLPIPE_GUARDED_BY(mutex_);
  uint64_t window_begin_ DLPIPE_GUARDED_BY(mutex_) = 0;
  uint64_t last_end_ DLPIPE_GUARDED_BY(mutex_) = 0;                            // of what was read last
  std::map<uint64_t, std::vector<std::byte>> kept_ DLPIPE_GUARDED_BY(mutex_);  // by where it begins
};

}  // namespace dlpipe::data
