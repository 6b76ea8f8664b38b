#include "io/data/sources/bytes/remote.h"

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

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/log.h"
#include "io/data/file_name.h"

#ifdef DLPIPE_HAVE_CURL
#include <curl/curl.h>
#endif

namespace dlpipe::data {

// Addresses.

namespace {

/// RFC 3986's unreserved characters and slashes are unchanged.
std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool stays = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (stays)
      out += c;
    else
      out += concat('%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]);
  }
  return out;
}

Result<RemoteRequest> s3_request(std::string_view rest,
                                 const std::function<std::string(const char*)>& environment) {
  RemoteRequest request;
  const size_t slash = rest.find('/');
  const std::string bucket(rest.substr(0, slash));
  const std::string key(slash == std::string_view::npos ? "" : rest.substr(slash + 1));
  request.shown = concat("s3://", rest);
  if (bucket.empty() || key.empty() || key.back() == '/')
    return misuse("ingest", printable(request.shown), " does not name a file; write s3://BUCKET/KEY.tar");
  const auto first_of = [&](const char* one, const char* other) {
    const std::string value = environment(one);
    return value.empty() ? environment(other) : value;
  };
  std::string region = first_of("AWS_REGION", "AWS_DEFAULT_REGION");
  if (region.empty()) region = "us-east-1";
  std::string endpoint = first_of("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
  while (!endpoint.empty() && endpoint.back() == '/') endpoint.pop_back();
  const std::string path = percent_encoded(key);
  if (!endpoint.empty())
    request.url = concat(endpoint, "/", percent_encoded(bucket), "/", path);
  else if (bucket.find('.') != std::string::npos)  // no certificate is valid for such a host name
    request.url = concat("https://s3.", region, ".amazonaws.com/", percent_encoded(bucket), "/", path);
  else
    request.url = concat("https://", percent_encoded(bucket), ".s3.", region, ".amazonaws.com/", path);
  request.key_id = environment("AWS_ACCESS_KEY_ID");
  request.secret = environment("AWS_SECRET_ACCESS_KEY");
  request.token = environment("AWS_SESSION_TOKEN");
  if (!request.key_id.empty()) request.signature = concat("aws:amz:", region, ":s3");
  if (!request.key_id.empty() && request.secret.empty())
    return misuse("ingest", "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
  return request;
}

}  // namespace

bool is_address(std::string_view path) {
  return path.find("://") != std::string_view::npos;
}

std::string shown_address(std::string_view address) {
  const size_t scheme = address.find("://");
  if (scheme == std::string_view::npos) return std::string(address);
  const std::string_view begin = address.substr(0, scheme + 3);
  std::string_view rest = address.substr(scheme + 3);
  if (begin == "s3://") return std::string(address);  // a key may hold any character
  rest = rest.substr(0, rest.find_first_of("?#"));
  const size_t at = rest.substr(0, rest.find('/')).rfind('@');
  if (at != std::string_view::npos) rest.remove_prefix(at + 1);
  return concat(begin, rest);
}

Result<RemoteRequest> request_for(const std::string& address,
                                  const std::function<std::string(const char*)>& environment) {
  constexpr std::string_view kS3 = "s3://";
  if (address.starts_with(kS3)) return s3_request(std::string_view(address).substr(kS3.size()), environment);
  RemoteRequest request;
  request.url = address;
  request.shown = shown_address(address);
  const size_t host = address.find("://") + 3;
  const size_t at = address.substr(0, address.find_first_of("/?#", host)).rfind('@');
  if (host > 2 && at != std::string::npos && at >= host) {
    request.login = address.substr(host, at - host);
    request.url.erase(host, at + 1 - host);
  }
  const bool is_known = address.starts_with("https://") || address.starts_with("http://");
  if (!is_known)
    return misuse(
        "ingest", printable(request.shown),
        ": addresses must begin with https://, http:// or s3://; pipe others: `dlpipe ingest - DST`");
  return request;
}

std::string origin_of(std::string_view url) {
  const size_t scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) return "";
  const std::string scheme = lower_text(url.substr(0, scheme_end));
  const std::string_view default_port = scheme == "https" ? ":443" : scheme == "http" ? ":80" : "";
  if (default_port.empty()) return "";
  std::string host = lower_text(url.substr(scheme_end + 3));
  host.resize(std::min(host.size(), host.find_first_of("/?#")));
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]";
  if (host.empty() || host.find_first_not_of(kPlain) != std::string::npos) return "";
  if (host.ends_with(default_port)) host.resize(host.size() - default_port.size());
  return concat(scheme, "://", host);
}

bool drops_encryption(std::string_view from, std::string_view to) {
  const auto is_encrypted = [](std::string_view url) { return lower_text(url).starts_with("https://"); };
  return is_encrypted(from) && !is_encrypted(to);
}

// The stream.

#ifdef DLPIPE_HAVE_CURL

namespace {

constexpr int kMostAttempts = 8;  // in succession without a byte
constexpr long kConnectTimeout_s = 30;
constexpr long kSilence_s = 60;  // a connection below a byte per second for this time is closed
constexpr int kMostBarren =
    4;  // equal responses without a byte, over some seconds: then the error is permanent
constexpr int kMostRedirections = 10;
constexpr size_t kMostHeaderBytes = size_t{128} << 10;  // of one response; servers send a few hundred bytes

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

/// The address that `location` (an address or a path) means relative to `url`, without a login; "" if it is not an address.
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

/// The properties of the file according to a response.
struct Answer {
  long code = 0;
  std::string location;
  std::string tag;       // ETag
  std::string modified;  // Last-Modified
  std::string range;     // Content-Range
  std::string region;    // of the S3 bucket, if another one was requested
  std::string retry_after;

  /// Identifies the content of a file: a strong tag, or the time.
  std::string validator() const { return tag.empty() || tag.starts_with("W/") ? modified : tag; }
  /// Bytes of the whole file, of "bytes 0-99/1234"; 0 if the server does not say.
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
  /// The position of the next byte in the file.
  uint64_t position() const { return part_.begin + received_; }
  /// Whether the data must belong to a file that is already known.
  bool is_bound() const { return position() > 0 || !part_.validator.empty(); }
  // Callbacks of libcurl: exceptions must not pass through its frames.
  static size_t on_bytes(char* bytes, size_t one, size_t count, void* self) noexcept;
  static size_t on_header(char* bytes, size_t one, size_t count, void* self) noexcept;
  size_t take_bytes(std::span<const std::byte> bytes);
  /// False if the headers of an attempt are too long.
  bool take_header(std::string_view line);
  Status connect();
  void add_header(const std::string& line);
  void disconnect();
  Status check_answer();
  Status thrown();
  /// Runs the transfer until bytes are available, it has ended, or it has failed permanently. Sets failure_ if another attempt
  /// may help.
  Status transfer();
  /// Connects to the address that the server redirects to. Redirections are followed here and not by libcurl, which would send
  /// the headers of the first request to any host.
  Status follow(const std::string& url);
  /// Whether the complete response reached the end of the requested range.
  bool reached_end() const;
  /// Sets failure_ for another attempt. An error if another attempt is pointless: the server returns the same as before,
  /// without a single byte.
  Status fail_for_now(std::string what, bool is_busy);
  Status wait_for_another_try();
  std::string_view how_to_be_let_in() const {
    if (!request_.shown.starts_with("s3://"))
      return "download it with the credentials that the server requires and pipe it: `curl ... | dlpipe "
             "ingest - DST`";
    return request_.key_id.empty() ? "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                                   : "use a key with permission to read it";
  }
  /// Advice for the case that the server's response is neither a file nor a redirection to one.
  std::string where_to_ask() const {
    const bool is_elsewhere = answer_.code >= 300 && answer_.code < 400;
    if (!request_.shown.starts_with("s3://"))
      return is_elsewhere ? ", but without the file's location; does the address point to a file?" : "";
    if (!answer_.region.empty() && (is_elsewhere || answer_.code == 400))
      return concat("; the bucket is in the region ", printable(answer_.region),
                    ": set AWS_REGION=", shell_text(answer_.region));
    return is_elsewhere ? "; set AWS_REGION to the bucket's region, or AWS_ENDPOINT_URL to its server" : "";
  }
  Status fail(ErrorCode code, std::string_view what) const {
    return Status(code, concat("[ingest] ", printable(request_.shown), ": ", what));
  }
  Status stopped() const {
    if (!stop_requested_ || !stop_requested_()) return {};
    return fail(ErrorCode::kCancelled, "stopped while it was being downloaded");
  }

  RemoteRequest request_;
  std::function<bool()> stop_requested_;
  const RemotePart part_;
  std::string url_;            // of the connection
  bool is_its_origin_ = true;  // request_'s keys, tokens and passwords may be sent to url_
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
  uint64_t received_before_ = 0;  // before this connection
  uint64_t page_bytes_ = 0;       // of the connection's error page
  size_t header_bytes_ = 0;       // of the connection
  uint64_t parted_bytes_ = 0;
  int64_t modified_ns_ = 0;
  int attempts_ = 0;
  std::string failure_;  // of the last attempt; "": none
  std::string barren_;   // the last response without a byte; "": none, or the server was busy
  int barren_times_ = 0;
  bool gave_some_ = false;  // the last attempt received less than requested, which servers may send
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
    return stream->take_header({bytes, one * count}) ? one * count : 0;
  } catch (...) {
    stream->thrown_ = std::current_exception();
    return 0;
  }
}

size_t CurlStream::take_bytes(std::span<const std::byte> bytes) {
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &answer_.code);
  const bool is_file = answer_.code == 200 || answer_.code == 206;
  if (!is_file) {  // an error page, which may be endless
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

bool CurlStream::take_header(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kMostHeaderBytes) return false;
  if (line.starts_with("HTTP/")) answer_ = {};  // discards the headers of a preceding response, such as 100
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  const std::string name = lower_text(line.substr(0, colon));
  const std::string value(trim(line.substr(colon + 1)));
  if (name == "location") answer_.location = value;
  if (name == "etag") answer_.tag = value;
  if (name == "last-modified") answer_.modified = value;
  if (name == "content-range") answer_.range = value;
  if (name == "x-amz-bucket-region") answer_.region = value;
  if (name == "retry-after") answer_.retry_after = value;
  return true;
}

// The rest must belong to the same file as the beginning that was read.
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
    return fail(ErrorCode::kPermission,
                "the server redirects from https:// to an unencrypted address, which is not followed");
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
  if (multi_ == nullptr || easy_ == nullptr)
    return fail(ErrorCode::kOutOfMemory, "out of memory for libcurl");
  CURL* const easy = easy_.get();
  answer_ = {};
  is_checked_ = false;
  gave_some_ = false;
  received_before_ = received_;
  page_bytes_ = 0;
  header_bytes_ = 0;
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
  // A range is requested even from the first byte: the response shows whether the server supports ranges, and how large the
  // file is.
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

Status CurlStream::fail_for_now(std::string what, bool is_busy) {
  failure_ = std::move(what);
  const bool is_barren = answer_.code != 0 && !is_busy && received_ == received_before_;
  const std::string barren = is_barren ? concat(answer_.code, " ", failure_) : "";
  barren_times_ = barren == barren_ ? barren_times_ + 1 : 1;
  barren_ = barren;
  if (barren.empty() || barren_times_ < kMostBarren) return {};
  return fail(ErrorCode::kIo,
              concat(failure_, ", ", kMostBarren,
                     " times without sending a byte; try another server, or download the file"));
}

Status CurlStream::wait_for_another_try() {
  if (++attempts_ >= kMostAttempts)
    return fail(ErrorCode::kIo, concat(failure_, "; gave up after ", kMostAttempts,
                                       " attempts. Try again later; what is already stored is kept"));
  if (received_ > 0 && validator_.empty())
    return fail(
        ErrorCode::kIo,
        concat(failure_, " after ", human_bytes(received_),
               ", and the server sends neither ETag nor Last-Modified, so the rest may belong to a different "
               "file. Download the file and ingest it"));
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

// A server may send less than was requested (RFC 9110, section 15.3.7).
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
  const bool is_page = answer != 200 && answer != 206;  // take_bytes() reads only the first part of it
  const CURLcode code =
      is_page && message->data.result == CURLE_WRITE_ERROR ? CURLE_OK : message->data.result;
  const std::string next = redirected(url_, answer_.location);
  disconnect();
  if (header_bytes_ > kMostHeaderBytes)
    return fail(ErrorCode::kIo, concat("the server's response has more than ", human_bytes(kMostHeaderBytes),
                                       " of headers; does the address point to a file?"));
  if (code == CURLE_OK && answer >= 300 && answer < 400 && !next.empty()) return follow(next);
  if (is_checked_ && code == CURLE_WRITE_ERROR) {
    return fail(
        ErrorCode::kChanged,
        "changed while it was being read, or the server does not serve parts of files; ingest again when it "
        "no longer changes");
  }
  if (answer == 416 && !is_bound()) {  // an empty file has no first byte
    ended_ = true;
    return {};
  }
  if (answer == 412 || answer == 416)
    return fail(ErrorCode::kChanged,
                "changed while it was being read; ingest again when it no longer changes");
  if (answer == 404 || answer == 410)
    return fail(ErrorCode::kNotFound, concat("there is no such file (", answer, ")"));
  if (answer == 401 || answer == 403)
    return fail(ErrorCode::kPermission, concat("the server refuses it (", answer, "); ", how_to_be_let_in()));
  if (code == CURLE_OK && (answer == 200 || answer == 206)) {
    ended_ = reached_end();
    gave_some_ = received_ > received_before_;
    if (ended_) return {};
    return fail_for_now("the server sends less than requested", false);
  }
  const bool is_busy = answer == 408 || answer == 429 || answer >= 500;
  const bool is_for_good = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_URL_MALFORMAT ||
                           code == CURLE_UNSUPPORTED_PROTOCOL ||
                           (code == CURLE_COULDNT_RESOLVE_HOST && !is_bound()) ||
                           (code == CURLE_OK && !is_busy);
  std::string what = code == CURLE_OK
                         ? concat("the server responds with ", answer, where_to_ask())
                         : printable(error_[0] != '\0' ? error_.data() : curl_easy_strerror(code));
  return is_for_good ? fail(ErrorCode::kIo, what) : fail_for_now(std::move(what), is_busy);
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

// Files that are read at arbitrary positions.

namespace {

// A read that begins at most this far after the previous one counts as the beginning of a sequence.
constexpr uint64_t kNearBytes = uint64_t{1} << 20;
constexpr size_t kPullBytes = size_t{256} << 10;

Status became_shorter(const std::string& address) {
  return {ErrorCode::kChanged,
          concat("[ingest] ", printable(shown_address(address)),
                 ": it ended before its last byte; ingest again when it no longer changes")};
}

bool copy_from(std::span<const std::byte> bytes, uint64_t begin, uint64_t at, std::span<std::byte> to) {
  if (at < begin || at - begin > bytes.size() || to.size() > bytes.size() - (at - begin)) return false;
  std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at - begin), to.size(), to.begin());
  return true;
}

}  // namespace

// forget() locks the file's own mutex, so it is called without holding this one.
void RemoteWindows::used(const std::shared_ptr<RemoteFile>& file) {
  std::shared_ptr<RemoteFile> oldest;
  {
    const MutexLock lock(mutex_);
    std::erase_if(files_, [&](const std::weak_ptr<RemoteFile>& one) {
      const auto other = one.lock();
      return other == nullptr || other == file;
    });
    files_.push_back(file);
    if (files_.size() > kMost) {
      oldest = files_.front().lock();
      files_.erase(files_.begin());
    }
  }
  if (oldest != nullptr) oldest->forget();
}

RemoteFile::RemoteFile(std::string address, std::function<bool()> stop_requested,
                       std::unique_ptr<RemoteStream> stream, std::vector<std::byte> begin,
                       std::shared_ptr<RemoteWindows> windows)
    : address_(std::move(address)),
      stop_requested_(std::move(stop_requested)),
      validator_(stream->validator()),
      size_(stream->parted_bytes()),
      windows_(std::move(windows)),
      stream_(std::move(stream)),
      window_(std::move(begin)) {}

void RemoteFile::forget() {
  const MutexLock lock(mutex_);
  stream_.reset();
  window_ = std::vector<std::byte>();  // {} would keep its memory
}

void RemoteFile::drop_kept() {
  const MutexLock lock(mutex_);
  kept_.clear();
}

Status RemoteFile::read(uint64_t at, std::span<std::byte> to) {
  windows_->used(shared_from_this());
  MutexLock lock(mutex_);
  DLPIPE_ASSIGN_OR_RETURN(const bool is_here, read_here(at, to));
  const bool follows = at >= last_end_ && at - last_end_ <= kNearBytes;
  last_end_ = at + to.size();
  if (is_here) return {};
  if (!follows) {
    lock.unlock();
    return read_apart(at, to);
  }
  DLPIPE_ASSIGN_OR_RETURN(
      stream_, RemoteStream::open(address_, stop_requested_, {.begin = at, .validator = validator_}));
  window_.clear();
  window_begin_ = at;
  DLPIPE_ASSIGN_OR_RETURN(const bool is_read, read_here(at, to));
  return is_read ? Status() : became_shorter(address_);
}

Result<bool> RemoteFile::read_here(uint64_t at, std::span<std::byte> to) {
  if (const auto next = kept_.upper_bound(at); next != kept_.begin()) {
    const auto& [begin, bytes] = *std::prev(next);
    if (copy_from(bytes, begin, at, to)) return true;
  }
  const bool can_go_on = stream_ != nullptr && at >= window_begin_ && at <= window_end() + kSkipBytes;
  if (can_go_on && at + to.size() > window_end()) DLPIPE_RETURN_IF_ERROR(pull(at + to.size()));
  if (!copy_from(window_, window_begin_, at, to)) return false;
  // Data that was already read is released from time to time, not at each read.
  const uint64_t behind = at > window_begin_ ? at - window_begin_ : 0;
  if (behind > 2 * kBehindBytes) {
    const uint64_t gone = behind - kBehindBytes;
    window_.erase(window_.begin(), window_.begin() + static_cast<ptrdiff_t>(gone));
    window_begin_ += gone;
  }
  return true;
}

Status RemoteFile::pull(uint64_t end) {
  while (window_end() < end) {
    const size_t filled = window_.size();
    const uint64_t left = end - window_end();
    window_.resize(filled + std::min<uint64_t>(left, kPullBytes));
    const auto count = stream_->read(std::span(window_).subspan(filled));
    window_.resize(filled + (count.ok() ? *count : 0));
    if (!count.ok()) stream_.reset();
    DLPIPE_RETURN_IF_ERROR(count.status());
    if (*count == 0) return became_shorter(address_);
  }
  return {};
}

Status RemoteFile::read_apart(uint64_t at, std::span<std::byte> to) const {
  DLPIPE_ASSIGN_OR_RETURN(const auto stream,
                          RemoteStream::open(address_, stop_requested_, {at, at + to.size(), validator_}));
  while (!to.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(const size_t count, stream->read(to));
    if (count == 0) return became_shorter(address_);
    to = to.subspan(count);
  }
  return {};
}

Status RemoteFile::keep(uint64_t at, uint64_t size) {
  std::vector<std::byte> bytes(size);
  DLPIPE_RETURN_IF_ERROR(read(at, bytes));
  const MutexLock lock(mutex_);
  kept_.emplace(at, std::move(bytes));
  return {};
}

}  // namespace dlpipe::data
