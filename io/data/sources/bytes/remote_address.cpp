#include "dlpipe/io/data/sources/bytes/remote_address.h"

#include <algorithm>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/bytes/remote.h"

namespace dlpipe::data {

namespace {

/// RFC 3986's unreserved characters and slashes stay.
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
    return misuse("ingest", printable(request.shown), " names no file; write s3://BUCKET/KEY.tar");
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
  else if (bucket.find('.') != std::string::npos)  // a host of that name has no certificate
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
        ": addresses begin with https://, http:// or s3://; others can be piped: `dlpipe ingest - DST`");
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

}  // namespace dlpipe::data
