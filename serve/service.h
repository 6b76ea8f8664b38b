// What the server answers: KServe v2, its repository extension, and /metrics. Knows nothing of sockets (http_server.h).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "serve/kserve.h"
#include "serve/models.h"
#include "serve/scheduler.h"

namespace dlpipe::serve {

struct HttpRequest {
  std::string method = {};
  std::string target = {};  // path and query, as sent
  std::string content_type = {}, content_encoding = {};
  std::string json_bytes = {};  // Inference-Header-Content-Length; "" if absent
  std::string body = {};
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
};

class Service {
 public:
  struct Options {
    Scheduler::Options scheduler;
    std::chrono::milliseconds time_limit{30'000};  // of a request, from its arrival to the end of its wait
  };
  Service(const Options& options, Models& models);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Any thread. Calls `reply` once, before it returns or later on another thread.
  void handle(HttpRequest request, std::function<void(HttpResponse&&)> reply);
  /// From now on /v2/health/ready says no, so that load balancers send nothing more.
  void begin_drain() {
    is_draining_ = true;
    scheduler_.hurry();
  }
  /// Answers the requests that wait with an error.
  void give_up() { scheduler_.give_up(); }
  /// Counts a request that was refused before it became one, for /metrics.
  void count_refused(int status) { count(status, -1); }
  /// The open connections, for /metrics. Connections may outlive the service.
  const std::shared_ptr<std::atomic<int64_t>> connections = std::make_shared<std::atomic<int64_t>>(0);

 private:
  struct Target;
  using Reply = std::function<void(HttpResponse&&)>;
  HttpResponse answer(const HttpRequest& request, const Target& target);
  void infer(HttpRequest&& request, const Target& target, Reply reply);
  HttpResponse statistics(const Target& target) const;
  HttpResponse repository(const Target& target);
  std::string metrics() const;
  void count(int status, double seconds);

  Options options_;
  Models& models_;
  std::atomic<bool> is_draining_{false};
  mutable Mutex mutex_;
  std::map<int, int64_t> by_status_ DLPIPE_GUARDED_BY(mutex_);
  std::array<int64_t, 16> by_seconds_ DLPIPE_GUARDED_BY(mutex_) = {};  // of infer requests, by bucket
  double sum_seconds_ DLPIPE_GUARDED_BY(mutex_) = 0;
  Scheduler scheduler_;  // last: its thread uses the rest
};

}  // namespace dlpipe::serve
