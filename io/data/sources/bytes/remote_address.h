// What stands in an address, and where s3:// leads. Pure functions but for the environment, which is given.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// How to ask for a file.
struct RemoteRequest {
  std::string url;
  std::string shown;      // fit to be printed
  std::string login;      // "user:password" as the address has it, percent-encoded; never printed
  std::string key_id;     // "": unsigned
  std::string secret;     // never printed
  std::string token;      // of a session; "": none
  std::string signature;  // CURLOPT_AWS_SIGV4: "aws:amz:us-east-1:s3"
};

/// `environment` answers a variable's value, "" where it isn't set. kMisuse says what is wrong with the address.
Result<RemoteRequest> request_for(const std::string& address,
                                  const std::function<std::string(const char*)>& environment);

/// Scheme, host and port of a URL: what keys, tokens and passwords are meant for. "" where that isn't plain to see, as where it
/// has a login or a character that parsers read differently; no URL is of that origin.
std::string origin_of(std::string_view url);
/// Whether a redirection leads from https to anything else.
bool drops_encryption(std::string_view from, std::string_view to);

}  // namespace dlpipe::data
