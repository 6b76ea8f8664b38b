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
  std::string key_id;     // "": unsigned
  std::string secret;     // never printed
  std::string token;      // of a session; "": none
  std::string signature;  // CURLOPT_AWS_SIGV4: "aws:amz:us-east-1:s3"
};

/// `environment` answers a variable's value, "" where it isn't set. kMisuse says what is wrong with the address.
Result<RemoteRequest> request_for(const std::string& address,
                                  const std::function<std::string(const char*)>& environment);

}  // namespace dlpipe::data
