// The HttpServer of a dlpipe that was built without Boost's headers: it refuses to be made.
#include "base/messages.h"
#include "serve/http_server.h"

namespace dlpipe::serve {

struct HttpServer::Impl {};

HttpServer::HttpServer(const Options& /*options*/) {
  refuse("serve", "this dlpipe was built without a server; install libboost-dev and build it again");
}

HttpServer::~HttpServer() = default;

int HttpServer::port() const {
  return 0;
}

Status HttpServer::run(Service& /*service*/, const std::atomic<bool>& /*stop*/) {
  return {};
}

}  // namespace dlpipe::serve
