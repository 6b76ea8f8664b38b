#include "serve/service.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"

namespace dlpipe::serve {

using formats::Json;

namespace {

/// Upper bounds of the buckets of dlpipe_request_seconds.
constexpr std::array kBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                 0.25,  0.5,    1.0,   2.5,  5.0,   10.0, 30.0};

HttpResponse error(int status, std::string_view message) {
  return {.status = status, .body = error_body(without_area(message))};
}

HttpResponse json(const Json& value) {
  return {.body = value.dump()};
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kMisuse:
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kCancelled:
      return 504;
    case ErrorCode::kOutOfMemory:
      return 503;
    default:
      return 500;
  }
}

HttpResponse error(const Status& status) {
  return error(status_of(status.code()), status.message());
}

/// The shortest text that reads back as the same number.
std::string exact(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// %41 as A. Other bytes are unchanged.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

/// "/v2/models/NAME/versions/VERSION/infer" in parts.
struct Service::Target {
  explicit Target(std::string_view target) {
    target = target.substr(0, target.find('?'));
    size_t begin = 1;
    while (begin <= target.size()) {
      const size_t end = std::min(target.find('/', begin), target.size());
      if (end > begin) words.push_back(unescaped(target.substr(begin, end - begin)));
      begin = end + 1;
    }
    if (words.empty() || words[0] != "v2") return;
    if (words.size() >= 3 && words[1] == "models" && words[2] != "stats") {
      model = words[2];
      size_t next = 3;
      if (words.size() >= 5 && words[3] == "versions") {
        version = words[4];
        next = 5;
      }
      verb = next < words.size() ? words[next] : "metadata";
      is_model = next + 1 >= words.size();
    }
  }
  bool is(std::initializer_list<std::string_view> path) const { return std::ranges::equal(words, path); }

  std::vector<std::string> words;
  bool is_model = false;
  std::string model, version, verb;
};

Service::Service(const Options& options, Models& models)
    : options_(options), models_(models), scheduler_(options.scheduler) {}

void Service::count(int status, double seconds) {
  const MutexLock lock(mutex_);
  ++by_status_[status];
  if (seconds < 0) return;
  sum_seconds_ += seconds;
  const auto bucket = std::ranges::lower_bound(kBuckets, seconds) - kBuckets.begin();
  ++by_seconds_.at(static_cast<size_t>(bucket));
}

void Service::handle(HttpRequest request, Reply reply) {
  const Target target(request.target);
  const bool is_infer = target.is_model && target.verb == "infer";
  const Clock::time_point begin = Clock::now();
  Reply counted = [this, is_infer, begin, reply = std::move(reply)](HttpResponse&& response) {
    count(response.status, is_infer ? std::chrono::duration<double>(Clock::now() - begin).count() : -1);
    reply(std::move(response));
  };
  try {
    if (!is_infer) return counted(answer(request, target));
    if (request.method != "POST") return counted(error(405, "infer takes POST"));
    infer(std::move(request), target, counted);
  } catch (...) {
    counted(error(status_from_current_exception("serve")));
  }
}

HttpResponse Service::answer(const HttpRequest& request, const Target& target) {
  const auto yes_or_no = [](bool is_so) { return HttpResponse{.status = is_so ? 200 : 503, .body = {}}; };
  if (target.words.size() > 1 && target.words[1] == "repository") {
    if (request.method != "POST") return error(405, "the repository takes POST");
    return repository(target);
  }
  if (request.method != "GET" && request.method != "HEAD") return error(405, "this address takes GET");
  if (target.is({"v2"}))
    return json(
        Json::object({{"name", "dlpipe"},
                      {"version", DLPIPE_VERSION},
                      {"extensions", Json::Array{"binary_tensor_data", "classification", "model_repository",
                                                 "model_repository(unload_dependents)", "statistics"}}}));
  if (target.is({"v2", "health", "live"})) return yes_or_no(true);
  if (target.is({"v2", "health", "ready"})) return yes_or_no(!is_draining_ && !models_.all().empty());
  if (target.is({"metrics"}))
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics()};
  if (target.is({"v2", "models", "stats"})) return statistics(target);
  if (target.is_model) {
    const auto model = models_.find(target.model, target.version);
    if (target.verb == "ready") return yes_or_no(model.ok() && !is_draining_);
    if (!model.ok()) return error(model.status());
    if (target.verb == "metadata") return json((*model)->metadata(models_.versions(target.model)));
    if (target.verb == "stats") return statistics(target);
  }
  return error(404, "there is nothing at this address; see docs/guide/serving.md");
}

HttpResponse Service::repository(const Target& target) {
  if (target.is({"v2", "repository", "index"})) return json(models_.index());
  if (target.words.size() == 5 && target.words[2] == "models") {
    if (target.words[4] == "load") {
      const Status status = models_.load(target.words[3]);
      return status.ok() ? HttpResponse{.body = {}} : error(status);
    }
    if (target.words[4] == "unload") {
      const Status status = models_.unload(target.words[3]);
      return status.ok() ? HttpResponse{.body = {}} : error(status);
    }
  }
  return error(
      404,
      "there is nothing at this address; the repository has index, models/NAME/load and models/NAME/unload");
}

HttpResponse Service::statistics(const Target& target) const {
  Json list = Json::array();
  for (const auto& model : models_.all()) {
    if (!target.model.empty() &&
        (model->name != target.model || (!target.version.empty() && model->version != target.version)))
      continue;
    const ModelCounters& c = *model->counters;
    const int64_t failed = c.failed.load(), done = c.requests.load() - failed;
    const auto part = [](int64_t count, int64_t ns) { return Json::object({{"count", count}, {"ns", ns}}); };
    list.push_back(
        Json::object({{"name", model->name},
                      {"version", model->version},
                      {"last_inference", c.last_ms.load()},
                      {"inference_count", c.images.load()},
                      {"execution_count", c.batches.load()},
                      {"inference_stats", Json::object({{"success", part(done, c.request_ns.load())},
                                                        {"fail", part(failed, 0)},
                                                        {"queue", part(done, c.queue_ns.load())},
                                                        {"compute_input", part(done, c.decode_ns.load())},
                                                        {"compute_infer", part(done, c.model_ns.load())},
                                                        {"compute_output", part(done, 0)}})}}));
  }
  return json(Json::object({{"model_stats", std::move(list)}}));
}

void Service::infer(HttpRequest&& request, const Target& target, Reply reply) {
  const Clock::time_point arrival = Clock::now();
  const auto found = models_.find(target.model, target.version);
  if (!found.ok()) return reply(error(found.status()));
  const std::shared_ptr<const ServedModel>& model = *found;
  const auto refuse_it = [&](HttpResponse&& response) {
    ++model->counters->requests;
    ++model->counters->failed;
    reply(std::move(response));
  };
  if (!request.content_encoding.empty() && request.content_encoding != "identity")
    return refuse_it(error(415, "compressed requests are not accepted; send them without Content-Encoding"));
  std::optional<size_t> json_bytes;
  if (!request.json_bytes.empty()) {
    size_t value = 0;
    const char* const end = request.json_bytes.data() + request.json_bytes.size();
    const auto read = std::from_chars(request.json_bytes.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end)
      return refuse_it(error(400, "Inference-Header-Content-Length is not a number"));
    json_bytes = value;
  } else if (request.content_type.starts_with("image/")) {
    json_bytes = 0;
  }
  auto parsed = parse_infer_request(request.body, json_bytes, kImageInput);
  if (!parsed.ok()) return refuse_it(error(parsed.status()));
  const auto wanted = std::make_shared<InferRequest>(*std::move(parsed));
  if (wanted->inputs.size() != 1 || wanted->inputs[0].name != kImageInput ||
      wanted->inputs[0].datatype != "BYTES")
    return refuse_it(error(400, concat("model ", in_quotes(model->name), " takes one input, '", kImageInput,
                                       "', of datatype BYTES: the bytes of image files")));
  const auto elements = byte_elements(wanted->inputs[0]);
  if (!elements.ok()) return refuse_it(error(elements.status()));
  if (elements->empty()) return refuse_it(error(400, "the request has no image"));
  if (static_cast<int64_t>(elements->size()) > options_.scheduler.max_images)
    return refuse_it(error(400, concat("the request has ", elements->size(), " images, and at most ",
                                       options_.scheduler.max_images, " may wait (--queue)")));
  Job job{.model = model, .images = {}, .deadline = arrival + options_.time_limit, .done = {}};
  const std::chrono::microseconds limit = options_.time_limit;
  if (wanted->timeout_us > 0 && wanted->timeout_us < limit.count())
    job.deadline = arrival + std::chrono::microseconds(wanted->timeout_us);
  for (const std::string_view bytes : *elements)
    job.images.push_back({.path = concat("image ", job.images.size()), .bytes = std::string(bytes)});
  wanted->inputs.clear();  // their bytes are in the job
  job.done = [model, wanted, reply, arrival](JobResult&& result) {
    ModelCounters& counters = *model->counters;
    ++counters.requests;
    counters.queue_ns += result.queue_ns;
    counters.request_ns += std::chrono::nanoseconds(Clock::now() - arrival).count();
    counters.last_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
    const auto respond = [&]() -> HttpResponse {
      if (!result.status.ok()) return error(result.status);
      for (const run::Prediction& one : result.predictions) {
        if (!one.error.empty())
          return error(one.error_code == ErrorCode::kNonfinite ? 500 : status_of(one.error_code),
                       concat(one.path, ": ", without_area(one.error)));
      }
      auto outputs = answer_tensors(*model, result.predictions);
      if (!outputs.ok()) return error(outputs.status());
      const auto encoded =
          encode(*wanted, {model->name, model->version, *std::move(outputs), model->state().classes});
      if (!encoded.ok()) return error(encoded.status());
      HttpResponse response{.body = encoded->body};
      if (encoded->json_bytes) {
        response.content_type = "application/octet-stream";
        response.headers.emplace_back("Inference-Header-Content-Length", concat(*encoded->json_bytes));
      }
      return response;
    };
    HttpResponse response;
    try {
      response = respond();
    } catch (...) {
      response = error(status_from_current_exception("serve"));
    }
    if (response.status != 200) ++counters.failed;
    reply(std::move(response));
  };
  if (!scheduler_.submit(std::move(job))) {
    HttpResponse full = error(503, "too many images wait; send the request again later");
    const double wait = std::clamp(std::ceil(scheduler_.expected_wait_s()), 1.0, 60.0);
    full.headers.emplace_back("Retry-After", concat(static_cast<int64_t>(wait)));
    return refuse_it(std::move(full));
  }
}

std::string Service::metrics() const {
  std::string text;
  const auto head = [&](std::string_view name, std::string_view type, std::string_view help) {
    text += concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  };
  const auto label = [](std::string_view value) {
    std::string escaped;
    for (const char c : value) {
      if (c == '\\' || c == '"') escaped += '\\';
      if (c == '\n') {
        escaped += "\\n";
      } else {
        escaped += c;
      }
    }
    return escaped;
  };
  {
    const MutexLock lock(mutex_);
    head("dlpipe_http_requests_total", "counter", "Requests by status code.");
    for (const auto& [status, count] : by_status_)
      text += concat("dlpipe_http_requests_total{code=\"", status, "\"} ", count, "\n");
    head("dlpipe_request_seconds", "histogram", "Time from an infer request to its answer.");
    int64_t sum = 0;
    for (size_t i = 0; i < kBuckets.size(); ++i) {
      sum += by_seconds_[i];
      text += concat("dlpipe_request_seconds_bucket{le=\"", exact(kBuckets[i]), "\"} ", sum, "\n");
    }
    sum += by_seconds_[kBuckets.size()];
    text += concat("dlpipe_request_seconds_bucket{le=\"+Inf\"} ", sum, "\ndlpipe_request_seconds_sum ",
                   exact(sum_seconds_), "\ndlpipe_request_seconds_count ", sum, "\n");
  }
  const auto gauge = [&](std::string_view name, int64_t value, std::string_view help) {
    head(name, "gauge", help);
    text += concat(name, " ", value, "\n");
  };
  gauge("dlpipe_waiting_images", scheduler_.waiting(), "Images that are accepted and not answered.");
  gauge("dlpipe_connections", connections->load(), "Open connections.");
  gauge("dlpipe_resident_bytes", static_cast<int64_t>(resident_bytes()), "Resident memory of the process.");
  head("dlpipe_reload_failures_total", "counter", "Reloads of models that failed; the former version stays.");
  text += concat("dlpipe_reload_failures_total ", models_.failed_reloads(), "\n");
  struct Row {
    const char* name;
    const char* help;
    std::atomic<int64_t> ModelCounters::*value;
    bool is_time;
  };
  static constexpr Row kRows[] = {
      {"dlpipe_model_requests_total", "Infer requests.", &ModelCounters::requests, false},
      {"dlpipe_model_failures_total", "Infer requests without an answer.", &ModelCounters::failed, false},
      {"dlpipe_model_images_total", "Images.", &ModelCounters::images, false},
      {"dlpipe_model_batches_total", "Batches.", &ModelCounters::batches, false},
      {"dlpipe_model_queue_seconds_total", "Time that requests waited.", &ModelCounters::queue_ns, true},
      {"dlpipe_model_decode_seconds_total", "Time to decode and prepare images.", &ModelCounters::decode_ns,
       true},
      {"dlpipe_model_compute_seconds_total", "Time of the model.", &ModelCounters::model_ns, true}};
  for (const Row& row : kRows) {
    head(row.name, "counter", row.help);
    for (const auto& model : models_.all()) {
      const int64_t value = ((*model->counters).*row.value).load();
      text += concat(row.name, "{model=\"", label(model->name), "\",version=\"", model->version, "\"} ");
      text += row.is_time ? exact(static_cast<double>(value) * 1e-9) : concat(value);
      text += '\n';
    }
  }
  return text;
}

}  // namespace dlpipe::serve
