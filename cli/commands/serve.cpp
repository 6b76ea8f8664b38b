// `dlpipe serve`: answers requests for predictions over HTTP until a signal stops it.

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/messages.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "dlpipe/log.h"
#include "io/formats/atomic_file.h"
#include "run/use/predict.h"
#include "serve/http_server.h"
#include "serve/models.h"
#include "serve/service.h"

namespace dlpipe::cli {

namespace {

struct ServeOptions {
  serve::Models::Options models;
  serve::Service::Options service;
  serve::HttpServer::Options http;
  double max_delay_ms = 0, time_limit_s = 30, drain_s = 30;
  int64_t max_body_mib = 64;
  std::string threshold, ready_file;
};

Status serve_models(ServeOptions& options) {
  if (!options.threshold.empty())
    DLPIPE_RETURN_IF_ERROR(run::read_thresholds(options.threshold, options.models.predict));
  options.models.predict.batch = options.service.scheduler.max_batch;
  options.service.scheduler.max_delay = std::chrono::microseconds(std::llround(options.max_delay_ms * 1e3));
  options.service.time_limit = std::chrono::milliseconds(std::llround(options.time_limit_s * 1e3));
  options.http.drain = std::chrono::seconds(std::llround(options.drain_s));
  options.http.max_body = static_cast<uint64_t>(options.max_body_mib) << 20;
  // Before the models are loaded, which takes time: the port may be in use.
  serve::HttpServer server(options.http);
  serve::Models models(options.models);
  for (const auto& model : models.all()) {
    for (const std::string& note : model->predictor->model().notes)
      print_note(concat(printable(model->name), ": ", printable(note)));
    print_note(
        concat("model ", printable(model->name), " version ", model->version, ": ", printable(model->path)));
  }
  serve::Service service(options.service, models);
  const std::atomic<bool>* const stop = catch_stop_signals(false, "answering the requests that have arrived");
  const bool is_v6 = options.http.host.find(':') != std::string::npos;
  const std::string address =
      concat("http://", is_v6 ? "[" : "", options.http.host, is_v6 ? "]" : "", ":", server.port());
  if (!options.ready_file.empty())
    DLPIPE_RETURN_IF_ERROR(formats::write_file(options.ready_file, address + "\n"));
  print_note(concat("serving on ", address, "; Ctrl-C answers what has arrived, and stops"));
  Status status = server.run(service, *stop);
  if (!options.ready_file.empty()) ::unlink(options.ready_file.c_str());
  return status;
}

std::function<Status()> setup_serve(Flags& flags) {
  auto options = std::make_shared<ServeOptions>();
  run::PredictOptions& predict = options->models.predict;
  flags
      .add_option("MODEL", options->models.paths,
                  "What to serve: runs, checkpoints and compiled models, each with the name of its file or "
                  "folder, or "
                  "NAME=PATH; or a repository, a folder of NAME/VERSION/ with one of these in each")
      .required();
  flags.add_option("--host", options->http.host,
                   "Address to listen on; 0.0.0.0: all of this machine's, without TLS or passwords");
  flags.add_option("--port", options->http.port, "Port; 0: a free one").range(0, 65535);
  flags.add_option("--max-batch", options->service.scheduler.max_batch, "Images per batch").range(1, 4096);
  flags
      .add_option("--max-delay", options->max_delay_ms,
                  "How long an image may wait for others to join its batch, in milliseconds")
      .range(0.0, 60'000.0);
  flags.add_option("--threads", predict.threads, "Threads; 0: as many as the process may use")
      .range(0, kMostThreads);
  flags
      .add_option("--queue", options->service.scheduler.max_images,
                  "Images that may wait; more are refused with 503")
      .range(1, 1'000'000);
  flags.add_option("--time-limit", options->time_limit_s, "How long a request may wait, in seconds")
      .range(0.001, 86'400.0);
  flags.add_option("--max-body", options->max_body_mib, "Refuse requests with more MiB").range(1, 4095);
  flags.add_option("--max-pixels", predict.max_pixels, "Refuse to decode images with more pixels");
  flags.add_option("--max-connections", options->http.max_connections, "Connections at the same time")
      .range(1, 1'000'000);
  flags
      .add_option(
          "--threshold", options->threshold,
          "For labels and boxes: as in predict; a number, NAME=T,NAME=T, or a file of eval --report --json")
      .type_name("T")
      .not_empty();
  flags.add_option("--val-augment", predict.model.val_augment,
                   "How images are prepared, if a model does not record it");
  flags.add_option("--dtype", predict.model.dtype, "f32 or bf16; default: as each model was trained");
  flags.add_option("--device", predict.device, "cpu, cuda");
  flags.add_option("--drain", options->drain_s, "After Ctrl-C or SIGTERM: seconds to answer what has arrived")
      .range(0.0, 86'400.0);
  flags
      .add_option("--access-log", options->http.access_log,
                  "A file that gets a JSON line per request; -: stdout")
      .not_empty();
  flags
      .add_option("--ready-file", options->ready_file,
                  "A file that holds the address while requests are accepted")
      .not_empty();
  flags.show_first({"--host", "--port", "--max-batch", "--max-delay", "--threads", "--threshold",
                    "--val-augment", "--access-log"});
  flags.footer(
      "Speaks KServe's v2 protocol (Triton's clients work) and takes images: curl --data-binary @a.jpg -H "
      "'Content-Type: image/jpeg' http://127.0.0.1:8000/v2/models/NAME/infer. /metrics is for Prometheus.");
  return [options] { return serve_models(*options); };
}

}  // namespace

extern const CommandRecord serve_command;
const CommandRecord serve_command = {"serve", "Answer requests for predictions over HTTP", setup_serve};

}  // namespace dlpipe::cli
