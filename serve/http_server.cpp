#include "serve/http_server.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <ctime>
#include <optional>
#include <utility>

#include "base/messages.h"
#include "dlpipe/log.h"
#include "io/formats/json.h"

namespace dlpipe::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using formats::Json;

namespace {

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr uint32_t kMostHeaderBytes = 16 << 10;
constexpr size_t kLongBody = 1 << 20;  // takes long enough to read that other connections would notice
/// For a client to take the answer to a request that it still sends, and after a stop to send the rest of its headers.
constexpr auto kLinger = std::chrono::seconds(2);
constexpr rlim_t kOtherDescriptors = 64;  // files of models, logs

/// One line of JSON per request. Lines that can't be written (a full disk) are dropped and counted.
class AccessLog {
 public:
  explicit AccessLog(const std::string& path) {
    if (path.empty()) return;
    fd_ = path == "-" ? ::dup(STDOUT_FILENO)
                      : ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ < 0) throw Error(status_from_errno("serve", concat("cannot open ", path), errno));
  }
  ~AccessLog() {
    if (fd_ >= 0) ::close(fd_);
  }
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void write(const std::string& remote, const HttpRequest& request, int status, size_t bytes,
             double seconds) {
    if (fd_ < 0) return;
    std::array<char, 32> time{};
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    Json line = Json::object({{"time", time.data()},
                              {"remote", remote},
                              {"method", request.method},
                              {"path", printable(request.target)},
                              {"status", status},
                              {"bytes", static_cast<int64_t>(bytes)},
                              {"seconds", seconds}});
    if (dropped_ > 0) line.set("dropped_lines", dropped_);
    const std::string text = line.dump() + "\n";
    if (::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
      dropped_ = 0;
    } else {
      ++dropped_;
    }
  }

 private:
  int fd_ = -1;
  int64_t dropped_ = 0;
};

struct Shared {
  const HttpServer::Options& options;
  AccessLog log;
  Service* service = nullptr;  // while run() runs
  bool is_draining = false;
  int64_t unanswered = 0;               // requests at the service
  uint64_t buffered = 0;                // bytes of bodies that have arrived and are not answered
  asio::thread_pool* loads = nullptr;   // waits while models are loaded
  asio::thread_pool* bodies = nullptr;  // reads long bodies
};

/// One connection. It lives as long as an operation or an answer refers to it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket&& socket, Shared& shared)
      : stream_(std::move(socket)), shared_(shared), open_(shared.service->connections) {
    ++*open_;
    beast::error_code error;
    const tcp::endpoint end = stream_.socket().remote_endpoint(error);
    if (!error) remote_ = end.address().to_string();
    stream_.socket().set_option(tcp::no_delay(true), error);
  }
  ~Connection() {
    --*open_;
    shared_.buffered -= held_;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kMostHeaderBytes);
    parser_->body_limit(shared_.options.max_body);
    is_idle_ = true;
    logged_ = {};
    stream_.expires_after(shared_.is_draining ? std::chrono::seconds(1) : shared_.options.idle);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->on_header(error); });
  }

  /// Ends it if no request has begun; with `even_begun` also if its headers are not there yet.
  void close_if_idle(bool even_begun) {
    beast::error_code ignored;
    const bool has_begun = buffer_.size() > 0 || stream_.socket().available(ignored) > 0;
    if (is_idle_ && (even_begun || !has_begun)) stream_.cancel();
  }

 private:
  void on_header(beast::error_code error) {
    is_idle_ = false;
    if (error) return refuse(error);
    const auto& message = parser_->get();
    logged_.method = std::string(message.method_string());
    logged_.target = std::string(message.target());
    version_ = message.version();
    const auto length = parser_->content_length();
    if (length && *length > shared_.options.max_body) return refuse(http::error::body_limit);
    stream_.expires_after(shared_.options.transfer);
    parser_->eager(true);
    if (beast::iequals(message[http::field::expect], "100-continue")) {
      go_on_.emplace(http::status::continue_, version_);
      http::async_write(stream_, *go_on_, [self = shared_from_this()](beast::error_code failed, size_t) {
        if (!failed) self->read_body();
      });
      return;
    }
    read_body();
  }

  void read_body() {
    if (parser_->is_done()) return handle();
    http::async_read_some(stream_, buffer_, *parser_,
                          [self = shared_from_this()](beast::error_code error, size_t) {
                            if (error) return self->refuse(error);
                            if (!self->hold(self->parser_->get().body().size()))
                              return self->refuse_for_memory();
                            self->read_body();
                          });
  }

  /// Counts the bytes of the body that have arrived. False if all bodies together have too many.
  bool hold(uint64_t bytes) {
    shared_.buffered += bytes - held_;
    held_ = bytes;
    return shared_.buffered <= shared_.options.max_buffered;
  }

  void refuse_for_memory() {
    keeps_alive_ = false;
    is_refused_ = true;
    begin_ = Clock::now();
    parser_.reset();  // its memory
    respond({.status = 503,
             .headers = {{"Retry-After", "1"}},
             .body = error_body("the requests that wait have too many bytes; send the request again later")});
  }

  /// Answers what can't be read as a request, and closes. A client that left or was too slow gets no answer.
  void refuse(beast::error_code error) {
    if (error == http::error::end_of_stream) {
      beast::error_code ignored;
      stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      return;
    }
    const bool is_http = error.category() == make_error_code(http::error::end_of_stream).category();
    if (!is_http) return;
    keeps_alive_ = false;
    is_refused_ = true;
    begin_ = Clock::now();
    if (error == http::error::body_limit) {
      respond({.status = 413,
               .body = error_body(
                   concat("the body has more than ", shared_.options.max_body, " bytes (--max-body)"))});
    } else if (error == http::error::header_limit) {
      respond({.status = 431,
               .body = error_body(concat("the headers have more than ", kMostHeaderBytes, " bytes"))});
    } else if (error != http::error::partial_message) {
      respond({.status = 400, .body = error_body(concat("this is not HTTP/1.1: ", error.message()))});
    }
  }

  void handle() {
    auto message = parser_->release();
    keeps_alive_ = message.keep_alive();
    is_head_ = message.method() == http::verb::head;
    begin_ = Clock::now();
    stream_.expires_never();
    auto request = std::make_shared<HttpRequest>(
        HttpRequest{.method = logged_.method,
                    .target = logged_.target,
                    .content_type = std::string(message[http::field::content_type]),
                    .content_encoding = std::string(message[http::field::content_encoding]),
                    .json_bytes = std::string(message["Inference-Header-Content-Length"]),
                    .body = std::move(message.body())});
    ++shared_.unanswered;
    auto work = [self = shared_from_this(), request] {
      self->shared_.service->handle(std::move(*request), [self](HttpResponse&& response) {
        auto moved = std::make_shared<HttpResponse>(std::move(response));
        asio::post(self->stream_.get_executor(), [self, moved] {
          --self->shared_.unanswered;
          self->respond(std::move(*moved));
        });
      });
    };
    const std::string_view path = std::string_view(request->target).substr(0, request->target.find('?'));
    if (request->method == "POST" && !path.ends_with("/infer")) {
      asio::post(*shared_.loads, std::move(work));
    } else if (request->body.size() > kLongBody) {
      asio::post(*shared_.bodies, std::move(work));
    } else {
      work();
    }
  }

  void respond(HttpResponse&& answer) {
    response_ = {};
    response_.result(static_cast<unsigned>(answer.status));
    response_.version(version_);
    response_.set(http::field::server, "dlpipe");
    if (!answer.body.empty()) response_.set(http::field::content_type, answer.content_type);
    for (const auto& [name, value] : answer.headers) response_.set(name, value);
    response_.keep_alive(keeps_alive_ && !shared_.is_draining);
    response_.content_length(answer.body.size());
    hold(0);
    if (is_refused_) shared_.service->count_refused(answer.status);
    shared_.log.write(remote_, logged_, answer.status, answer.body.size(),
                      std::chrono::duration<double>(Clock::now() - begin_).count());
    if (!is_head_) response_.body() = std::move(answer.body);
    serializer_.emplace(response_);
    stream_.expires_after(shared_.options.transfer);
    const auto written = [self = shared_from_this()](beast::error_code error, size_t) {
      if (error) return;
      if (self->response_.keep_alive()) return self->read();
      beast::error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      if (!self->is_refused_) return;
      self->stream_.expires_after(kLinger);
      self->linger();
    };
    if (is_head_) {
      http::async_write_header(stream_, *serializer_, written);
    } else {
      http::async_write(stream_, *serializer_, written);
    }
  }

  /// Reads and forgets what the client still sends. With unread bytes, closing would reset the connection, and the client would
  /// lose the answer.
  void linger() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kMostHeaderBytes),
                            [self = shared_from_this()](beast::error_code error, size_t) {
                              if (!error) self->linger();
                            });
  }

  beast::tcp_stream stream_;
  Shared& shared_;
  std::shared_ptr<std::atomic<int64_t>> open_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::empty_body>> go_on_;
  http::response<http::string_body> response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  std::string remote_;
  HttpRequest logged_;  // method and target
  unsigned version_ = 11;
  uint64_t held_ = 0;  // bytes of its body
  Clock::time_point begin_;
  bool keeps_alive_ = true, is_head_ = false, is_idle_ = true, is_refused_ = false;
};

}  // namespace

struct HttpServer::Impl {
  explicit Impl(const Options& given)
      : options(given), shared{options, AccessLog(given.access_log)}, acceptor(io), timer(io) {
    options.max_buffered = std::max(options.max_buffered, options.max_body);
    shared.loads = &loads;
    shared.bodies = &bodies;
    limit_connections();
    beast::error_code error;
    const auto address =
        asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
    if (error)
      refuse("serve", "--host ", in_quotes(options.host), " is not an address; use 127.0.0.1, 0.0.0.0 or ::");
    const tcp::endpoint end(address, static_cast<uint16_t>(options.port));
    acceptor.open(end.protocol(), error);
    if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(end, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      refuse("serve", "cannot listen on ", options.host, ":", options.port, ": ", error.message(),
             "; choose another --port or --host");
  }

  /// To what the limit of descriptors (ulimit -n) allows, after raising it. Models are loaded with the other descriptors.
  void limit_connections() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    const auto wanted = static_cast<rlim_t>(options.max_connections) + kOtherDescriptors;
    if (files.rlim_cur < wanted) {
      files.rlim_cur = std::min(wanted, files.rlim_max);
      if (::setrlimit(RLIMIT_NOFILE, &files) != 0) ::getrlimit(RLIMIT_NOFILE, &files);
    }
    const rlim_t others = std::min(kOtherDescriptors, files.rlim_cur / 2);
    if (files.rlim_cur < wanted) options.max_connections = static_cast<int64_t>(files.rlim_cur - others);
  }

  void accept() {
    acceptor.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error) begin(std::move(socket));
      // Without descriptors accept() fails at once, again and again.
      if (!error) return accept();
      retry.emplace(io, kPoll);
      retry->async_wait([this](beast::error_code cancelled) {
        if (!cancelled) accept();
      });
    });
  }

  void begin(tcp::socket&& socket) {
    if (shared.service->connections->load() >= options.max_connections) return;
    try {
      auto connection = std::make_shared<Connection>(std::move(socket), shared);
      connections.push_back(connection);
      connection->read();
    } catch (...) {  // the next one may be accepted
      log(LogLevel::kWarning, status_from_current_exception("serve").message());
    }
  }

  /// Takes the connections that the kernel has accepted: their requests may be there already.
  void stop_accepting() {
    beast::error_code error;
    acceptor.non_blocking(true, error);
    while (!error) {
      tcp::socket socket(io);
      acceptor.accept(socket, error);
      if (!error) begin(std::move(socket));
    }
    acceptor.close(error);
    retry.reset();
  }

  void close_idle(bool even_begun) {
    for (const auto& one : connections)
      if (const auto connection = one.lock()) connection->close_if_idle(even_begun);
  }

  void forget_closed() {
    std::erase_if(connections, [](const auto& one) { return one.expired(); });
  }

  void watch(const std::atomic<bool>& stop) {
    timer.expires_after(kPoll);
    timer.async_wait([this, &stop](beast::error_code) {
      forget_closed();
      if (stop.load() && !shared.is_draining) {
        shared.is_draining = true;
        drain_until = Clock::now() + options.drain;
        shared.service->begin_drain();
        headers_until = Clock::now() + kLinger;
        close_idle(false);
        stop_accepting();
      }
      if (shared.is_draining) {
        if (Clock::now() > headers_until) close_idle(true);
        const bool is_done = shared.unanswered == 0 && connections.empty();
        if (is_done || Clock::now() > drain_until) return io.stop();
      }
      watch(stop);
    });
  }

  Options options;
  Shared shared;  // connections, which io has, refer to it
  asio::io_context io{1};
  asio::thread_pool loads{1}, bodies{1};
  tcp::acceptor acceptor;
  asio::steady_timer timer;
  std::optional<asio::steady_timer> retry;
  std::vector<std::weak_ptr<Connection>> connections;
  Clock::time_point drain_until, headers_until;
};

HttpServer::HttpServer(const Options& options) : impl_(std::make_unique<Impl>(options)) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const {
  return impl_->acceptor.local_endpoint().port();
}

Status HttpServer::run(Service& service, const std::atomic<bool>& stop) {
  impl_->shared.service = &service;
  impl_->accept();
  impl_->watch(stop);
  for (;;) {
    try {
      impl_->io.run();
      break;
    } catch (...) {  // no memory, for example: the connection that it was for is gone
      log(LogLevel::kWarning, status_from_current_exception("serve").message());
    }
  }
  const int64_t left = impl_->shared.unanswered;
  if (left > 0) service.give_up();
  for (asio::thread_pool* pool : {&impl_->loads, &impl_->bodies}) {
    pool->stop();
    pool->join();
  }
  if (left > 0)
    return {ErrorCode::kCancelled,
            concat("[serve] stopped with ", counted(left, "request"), " unanswered after --drain")};
  return {};
}

}  // namespace dlpipe::serve
