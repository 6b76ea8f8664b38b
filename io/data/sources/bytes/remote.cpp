#include "dlpipe/io/data/sources/bytes/remote.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "dlpipe/base/log.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/bytes/remote_address.h"

#ifdef DLPIPE_HAVE_CURL
#include <curl/curl.h>
#endif

namespace dlpipe::data {

#ifdef DLPIPE_HAVE_CURL

namespace {

constexpr int kMostAttempts = 8;  // without a byte between them
constexpr long kConnectTimeout_s = 30;
constexpr long kSilence_s = 60;  // below a byte per second for so long: cut it
constexpr int kMostRedirections = 10;

void start_curl_once() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)started;
}

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

/// Where `location`, an address or a path, leads from `url`, without a login; "" where that is no address.
std::string redirected(const std::string& url, const std::string& location) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parts(curl_url(), curl_url_cleanup);
  char* text = nullptr;
  if (location.empty() || parts == nullptr) return "";
  for (const std::string* part : {&url, &location})
    if (curl_url_set(parts.get(), CURLUPART_URL, part->c_str(), CURLU_URLENCODE) != CURLUE_OK) return "";
  for (const CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS})
    curl_url_set(parts.get(), part, nullptr, 0);
  if (curl_url_get(parts.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) return "";
  const std::unique_ptr<char, void (*)(void*)> owned(text, curl_free);
  return text;
}

/// What a response says of the file.
struct Answer {
  long code = 0;
  std::string location;
  std::string tag;       // ETag
  std::string modified;  // Last-Modified
  std::string range;     // Content-Range
  std::string region;    // of S3's bucket, which another one was asked for
  std::string retry_after;

  /// What tells one content of a file from another: a strong tag, or the time.
  std::string validator() const { return tag.empty() || tag.starts_with("W/") ? modified : tag; }
  /// Bytes of the whole file, of "bytes 0-99/1234"; 0 where the server doesn't say.
  uint64_t total_bytes() const {
    int64_t bytes = 0;
    const size_t slash = range.find('/');
    const bool is_said =
        slash != std::string::npos && parse_int(range.substr(slash + 1), &bytes) && bytes > 0;
    return is_said ? static_cast<uint64_t>(bytes) : 0;
  }
};

class CurlStream final : public RemoteStream {
 public:
  CurlStream(RemoteRequest request, std::function<bool()> stop_requested, RemotePart part)
      : request_(std::move(request)),
        stop_requested_(std::move(stop_requested)),
        part_(std::move(part)),
        validator_(part_.validator) {}
  ~CurlStream() override { disconnect(); }

  Result<size_t> read(std::span<std::byte> to) override;
  int64_t modified_ns() const override { return modified_ns_; }
  const std::string& validator() const override { return validator_; }
  uint64_t parted_bytes() const override { return parted_bytes_; }

 private:
  /// Where in the file the next byte is.
  uint64_t position() const { return part_.begin + received_; }
  /// Whether what is read must be of a file that is known already.
  bool is_bound() const { return position() > 0 || !part_.validator.empty(); }
  // What libcurl calls: nothing may be thrown through its frames.
  static size_t on_bytes(char* bytes, size_t one, size_t count, void* self) noexcept;
  static size_t on_header(char* bytes, size_t one, size_t count, void* self) noexcept;
  size_t take_bytes(std::span<const std::byte> bytes);
  void take_header(std::string_view line);
  Status connect();
  void add_header(const std::string& line);
  void disconnect();
  Status check_answer();
  Status thrown();
  /// Moves bytes until some are there, the transfer ended, or something is wrong for good. Sets failure_ for another try.
  Status transfer();
  /// Where the server says that the file is. Redirections are followed here and not by libcurl, which would send the headers of
  /// the first request to any host.
  Status follow(const std::string& url);
  /// Whether the answer, which came whole, reached the end of what was asked for.
  bool reached_end() const;
  Status wait_for_another_try();
  std::string_view how_to_be_let_in() const {
    if (!request_.shown.starts_with("s3://"))
      return "fetch it with what the server asks for, and pipe it: `curl ... | dlpipe ingest - DST`";
    return request_.key_id.empty() ? "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                                   : "use a key that may read it";
  }
  /// What may help where the server's answer is no file and says no place of one.
  std::string where_to_ask() const {
    const bool is_elsewhere = answer_.code >= 300 && answer_.code < 400;
    if (!request_.shown.starts_with("s3://"))
      return is_elsewhere ? ", and not where the file is; does the address lead to a file?" : "";
    if (!answer_.region.empty() && (is_elsewhere || answer_.code == 400))
      return concat("; the bucket is in the region ", printable(answer_.region),
                    ": set AWS_REGION=", shell_word(answer_.region));
    return is_elsewhere ? "; set AWS_REGION to the bucket's region, or AWS_ENDPOINT_URL to its server" : "";
  }
  Status fail(ErrorCode code, std::string_view what) const {
    return Status(code, concat("[ingest] ", printable(request_.shown), ": ", what));
  }
  Status stopped() const {
    if (!stop_requested_ || !stop_requested_()) return {};
    return fail(ErrorCode::kCancelled, "stopped while it was fetched");
  }

  RemoteRequest request_;
  std::function<bool()> stop_requested_;
  const RemotePart part_;
  std::string url_;            // of the connection
  bool is_its_origin_ = true;  // url_ is where the keys, tokens and passwords of request_ belong
  int redirections_ = 0;       // of this attempt
  std::exception_ptr thrown_;  // in a call of libcurl's
  std::unique_ptr<CURLM, FreeMulti> multi_;
  std::unique_ptr<CURL, FreeEasy> easy_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  Answer answer_;            // of the connection
  bool is_checked_ = false;  // the answer
  std::string validator_;    // of the file, once known
  std::vector<std::byte> buffer_;
  size_t taken_ = 0;              // of the buffer
  uint64_t received_ = 0;         // of the part, over all connections
  uint64_t received_before_ = 0;  // the connection
  uint64_t page_bytes_ = 0;       // of the connection, where it answers with an error's page
  uint64_t parted_bytes_ = 0;
  int64_t modified_ns_ = 0;
  int attempts_ = 0;
  std::string failure_;     // of the last attempt; "": none
  bool gave_some_ = false;  // the last attempt: no more of what was asked for, as servers may
  bool ended_ = false;
};

size_t CurlStream::on_bytes(char* bytes, size_t one, size_t count, void* self) noexcept {
  auto* stream = static_cast<CurlStream*>(self);
  try {
    return stream->take_bytes(std::as_bytes(std::span(bytes, one * count)));
  } catch (...) {
    stream->thrown_ = std::current_exception();
    return 0;
  }
}

size_t CurlStream::on_header(char* bytes, size_t one, size_t count, void* self) noexcept {
  auto* stream = static_cast<CurlStream*>(self);
  try {
    stream->take_header({bytes, one * count});
    return one * count;
  } catch (...) {
    stream->thrown_ = std::current_exception();
    return 0;
  }
}

size_t CurlStream::take_bytes(std::span<const std::byte> bytes) {
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &answer_.code);
  const bool is_file = answer_.code == 200 || answer_.code == 206;
  if (!is_file) {  // an error's page, which may have no end
    constexpr size_t kMostOfAPage = size_t{64} << 10;
    page_bytes_ += bytes.size();
    return page_bytes_ > kMostOfAPage ? 0 : bytes.size();
  }
  if (!is_checked_ && !check_answer().ok()) return 0;
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  received_ += bytes.size();
  attempts_ = 0;
  return bytes.size();
}

void CurlStream::take_header(std::string_view line) {
  if (line.starts_with("HTTP/")) answer_ = {};  // of a 100 before
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = lower_text(line.substr(0, colon));
  const std::string value(trim(line.substr(colon + 1)));
  if (name == "location") answer_.location = value;
  if (name == "etag") answer_.tag = value;
  if (name == "last-modified") answer_.modified = value;
  if (name == "content-range") answer_.range = value;
  if (name == "x-amz-bucket-region") answer_.region = value;
  if (name == "retry-after") answer_.retry_after = value;
}

// The rest of the file must be of the file whose beginning was read.
Status CurlStream::check_answer() {
  is_checked_ = true;
  const std::string validator = answer_.validator();
  const bool is_part = answer_.code == 206 && answer_.range.starts_with(concat("bytes ", position(), "-"));
  if (!is_bound()) {
    validator_ = validator;
    const time_t time = answer_.modified.empty() ? -1 : curl_getdate(answer_.modified.c_str(), nullptr);
    modified_ns_ = time > 0 ? int64_t{time} * 1'000'000'000 : 0;
    if (is_part) parted_bytes_ = answer_.total_bytes();
    if (answer_.code == 200 || is_part) return {};
  } else if (validator == validator_ && is_part) {
    return {};
  }
  return fail(ErrorCode::kChanged, "changed");
}

void CurlStream::disconnect() {
  if (multi_ != nullptr && easy_ != nullptr) curl_multi_remove_handle(multi_.get(), easy_.get());
  easy_.reset();
  headers_.reset();
}

void CurlStream::add_header(const std::string& line) {
  curl_slist* const longer = curl_slist_append(headers_.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  (void)headers_.release();
  headers_.reset(longer);
}

Status CurlStream::thrown() {
  try {
    std::rethrow_exception(std::exchange(thrown_, nullptr));
  } catch (...) {
    return status_from_current_exception("ingest");
  }
}

Status CurlStream::follow(const std::string& url) {
  const std::string from = origin_of(url_);
  const std::string to = origin_of(url);
  if (drops_encryption(url_, url))
    return fail(
        ErrorCode::kPermission,
        "the server redirects from https:// to an address that isn't encrypted, which is not followed");
  if (++redirections_ > kMostRedirections)
    return fail(ErrorCode::kIo, concat("redirected more than ", kMostRedirections,
                                       " times; does the server redirect in a circle?"));
  is_its_origin_ = is_its_origin_ && !from.empty() && to == from;
  url_ = url;
  return connect();
}

Status CurlStream::connect() {
  start_curl_once();
  if (multi_ == nullptr) multi_.reset(curl_multi_init());
  easy_.reset(curl_easy_init());
  if (multi_ == nullptr || easy_ == nullptr) return fail(ErrorCode::kOutOfMemory, "no memory for libcurl");
  CURL* const easy = easy_.get();
  answer_ = {};
  is_checked_ = false;
  gave_some_ = false;
  received_before_ = received_;
  page_bytes_ = 0;
  error_[0] = '\0';
  curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kConnectTimeout_s);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, kSilence_s);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error_.data());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "dlpipe");
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
  // From the first byte on, too: the answer says whether the server gives parts, and how large the file is.
  curl_easy_setopt(easy, CURLOPT_RANGE,
                   concat(position(), "-", part_.end > 0 ? concat(part_.end - 1) : "").c_str());
  const bool is_signed = is_its_origin_ && !request_.signature.empty();
  if (is_bound() && !is_signed) add_header(concat("If-Range: ", validator_));
  if (is_signed) {
    curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, request_.signature.c_str());
    curl_easy_setopt(easy, CURLOPT_USERNAME, request_.key_id.c_str());
    curl_easy_setopt(easy, CURLOPT_PASSWORD, request_.secret.c_str());
    add_header("x-amz-content-sha256: UNSIGNED-PAYLOAD");
    if (!request_.token.empty()) add_header(concat("x-amz-security-token: ", request_.token));
  } else if (is_its_origin_ && !request_.login.empty()) {
    const size_t colon = std::min(request_.login.find(':'), request_.login.size());
    const auto set = [&](CURLoption option, const std::string& encoded) {
      char* const text = curl_easy_unescape(easy, encoded.c_str(), 0, nullptr);
      curl_easy_setopt(easy, option, text);
      curl_free(text);
    };
    set(CURLOPT_USERNAME, request_.login.substr(0, colon));
    set(CURLOPT_PASSWORD, request_.login.substr(std::min(colon + 1, request_.login.size())));
  }
  if (headers_ != nullptr) curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
  curl_multi_add_handle(multi_.get(), easy);
  return {};
}

Status CurlStream::wait_for_another_try() {
  if (++attempts_ >= kMostAttempts)
    return fail(ErrorCode::kIo, concat(failure_, "; gave up after ", kMostAttempts,
                                       " attempts. Try again later; what is stored already is kept"));
  if (received_ > 0 && validator_.empty())
    return fail(
        ErrorCode::kIo,
        concat(failure_, " after ", human_bytes(received_),
               ", and the server says neither ETag nor Last-Modified: whether the rest is of the same file "
               "can't be known. Download it, and ingest the file"));
  if (gave_some_) return {};
  int64_t seconds = 0;
  constexpr int64_t kMostWait_s = 60;
  const bool is_asked = parse_int(answer_.retry_after, &seconds) && seconds >= 0;
  const int64_t wait_ms = is_asked ? std::min(seconds, kMostWait_s) * 1000
                                   : std::min<int64_t>(kMostWait_s * 1000, int64_t{250} << attempts_);
  log(LogLevel::kWarning,
      concat("[ingest] ", printable(request_.shown), ": ", failure_, "; attempt ", attempts_ + 1, " of ",
             kMostAttempts, " in ", static_cast<double>(wait_ms) / 1000, " s"));
  constexpr int64_t kStep_ms = 50;
  for (int64_t waited = 0; waited < wait_ms; waited += kStep_ms) {
    DLPIPE_RETURN_IF_ERROR(stopped());
    std::this_thread::sleep_for(std::chrono::milliseconds(kStep_ms));
  }
  return {};
}

// A server may answer with less than it was asked for (RFC 9110, section 15.3.7).
bool CurlStream::reached_end() const {
  if (answer_.code == 200) return true;
  const uint64_t total = answer_.total_bytes();
  if (total > 0 && position() >= total) return true;
  const uint64_t end = part_.end > 0 ? part_.end : total;
  return end == 0 || position() >= end;
}

Status CurlStream::transfer() {
  constexpr int kPoll_ms = 200;
  int running = 1;
  while (buffer_.empty() && running > 0) {
    DLPIPE_RETURN_IF_ERROR(stopped());
    if (curl_multi_perform(multi_.get(), &running) != CURLM_OK) return fail(ErrorCode::kIo, "libcurl failed");
    if (thrown_ != nullptr) return thrown();
    if (buffer_.empty() && running > 0) curl_multi_poll(multi_.get(), nullptr, 0, kPoll_ms, nullptr);
  }
  int left = 0;
  const CURLMsg* const message = running == 0 ? curl_multi_info_read(multi_.get(), &left) : nullptr;
  if (message == nullptr || message->msg != CURLMSG_DONE) return {};
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &answer_.code);
  const long answer = answer_.code;
  const bool is_page =
      answer != 200 && answer != 206;  // of which take_bytes() reads as much as anybody needs
  const CURLcode code =
      is_page && message->data.result == CURLE_WRITE_ERROR ? CURLE_OK : message->data.result;
  const std::string next = redirected(url_, answer_.location);
  disconnect();
  if (code == CURLE_OK && answer >= 300 && answer < 400 && !next.empty()) return follow(next);
  if (is_checked_ && code == CURLE_WRITE_ERROR) {
    return fail(ErrorCode::kChanged,
                "changed while it was read, or the server doesn't serve parts of files; ingest again when it "
                "no longer changes");
  }
  if (answer == 416 && !is_bound()) {  // an empty file has no first byte
    ended_ = true;
    return {};
  }
  if (answer == 412 || answer == 416)
    return fail(ErrorCode::kChanged, "changed while it was read; ingest again when it no longer changes");
  if (answer == 404 || answer == 410)
    return fail(ErrorCode::kNotFound, concat("there is no such file (", answer, ")"));
  if (answer == 401 || answer == 403)
    return fail(ErrorCode::kPermission, concat("the server refuses it (", answer, "); ", how_to_be_let_in()));
  if (code == CURLE_OK && (answer == 200 || answer == 206)) {
    ended_ = reached_end();
    gave_some_ = received_ > received_before_;
    failure_ = "the server gives less than it was asked for";
    return {};
  }
  const bool is_busy = answer == 408 || answer == 429 || answer >= 500;
  const bool is_for_good = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_URL_MALFORMAT ||
                           code == CURLE_UNSUPPORTED_PROTOCOL ||
                           (code == CURLE_COULDNT_RESOLVE_HOST && !is_bound()) ||
                           (code == CURLE_OK && !is_busy);
  failure_ = code == CURLE_OK ? concat("the server answers ", answer, where_to_ask())
                              : concat(error_[0] != '\0' ? error_.data() : curl_easy_strerror(code));
  return is_for_good ? fail(ErrorCode::kIo, failure_) : Status();
}

Result<size_t> CurlStream::read(std::span<std::byte> to) {
  while (taken_ == buffer_.size()) {
    buffer_.clear();
    taken_ = 0;
    if (ended_) return size_t{0};
    if (easy_ == nullptr) {
      if (!failure_.empty()) DLPIPE_RETURN_IF_ERROR(wait_for_another_try());
      url_ = request_.url;
      is_its_origin_ = true;
      redirections_ = 0;
      DLPIPE_RETURN_IF_ERROR(connect());
    }
    DLPIPE_RETURN_IF_ERROR(transfer());
  }
  const size_t count = std::min(to.size(), buffer_.size() - taken_);
  std::copy_n(buffer_.begin() + static_cast<ptrdiff_t>(taken_), count, to.begin());
  taken_ += count;
  return count;
}

}  // namespace

Result<std::unique_ptr<RemoteStream>> RemoteStream::open(const std::string& address,
                                                         std::function<bool()> stop_requested,
                                                         RemotePart part) {
  DLPIPE_ASSIGN_OR_RETURN(RemoteRequest request, request_for(address, [](const char* name) {
                            const char* const value = std::getenv(name);
                            return std::string(value != nullptr ? value : "");
                          }));
  return std::unique_ptr<RemoteStream>(
      std::make_unique<CurlStream>(std::move(request), std::move(stop_requested), std::move(part)));
}

#else

Result<std::unique_ptr<RemoteStream>> RemoteStream::open(const std::string& address, std::function<bool()>,
                                                         RemotePart) {
  return Status(
      ErrorCode::kUnsupported,
      concat("[ingest] ", printable(shown_address(address)),
             ": this dlpipe was built without libcurl; download it, or pipe it: `curl -L ADDRESS | dlpipe "
             "ingest - DST`"));
}

#endif

}  // namespace dlpipe::data
