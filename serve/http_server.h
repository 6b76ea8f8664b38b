// HTTP/1.1 over TCP, by Boost.Beast: connections, limits and time limits. What is answered is the Service's.
//
// One thread reads and writes all connections; models run on the scheduler's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dlpipe/error.h"
#include "serve/service.h"

namespace dlpipe::serve {

class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // an address of this machine
    int port = 8000;                 // 0: a free one
    uint64_t max_body = uint64_t{64} << 20;
    uint64_t max_buffered = uint64_t{1}
                            << 30;  // of the bodies of all requests without an answer; at least max_body
    int64_t max_connections = 8192;
    std::chrono::seconds idle{75};      // of a connection between two requests
    std::chrono::seconds transfer{30};  // for the bytes of one request or answer
    std::chrono::seconds drain{30};     // for answers after a stop
    std::string access_log = {};        // a file that lines are appended to; "-": stdout; "": none
  };
  /// Opens the port. Throws Error (kMisuse) if the address can't be used.
  explicit HttpServer(const Options& options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  /// Serves until `stop` is set. Then accepts no new connections, answers the requests that are there, and returns: ok, or
  /// kCancelled if some were not answered in time.
  /// Call it once; this object must outlive `service`, whose last answers are sent to it.
  Status run(Service& service, const std::atomic<bool>& stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlpipe::serve
