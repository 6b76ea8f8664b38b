// Limits of the server that no option of the program sets. tests/cli/commands/serve_test.cpp and tests/attack/clients.py are clients
// of the program.
#include "serve/http_server.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "tests/io/formats/scratch.h"
#include "tests/serve/loopback_socket.h"
#include "tests/serve/small_model.h"

namespace dlpipe::serve {

namespace {

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    test::write_small_model(folder_ / "m.dlg");
    models_.emplace(Models::Options{.paths = {"m=" + folder_ / "m.dlg"}, .predict = {}});
  }
  ~HttpServerTest() override {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void start(HttpServer::Options options, Scheduler::Options scheduler = {}) {
    options.port = 0;
    service_.emplace(Service::Options{.scheduler = scheduler}, *models_);
    server_.emplace(options);
    thread_ = std::thread([this] { status_ = server_->run(*service_, stop_); });
  }
  Status stop() {
    stop_ = true;
    thread_.join();
    return status_;
  }

  using Client = test::LoopbackSocket;

  static std::string request(const std::string& body, size_t length) {
    return "POST /v2/models/m/infer HTTP/1.1\r\nContent-Type: image/png\r\nContent-Length: " +
           std::to_string(length) + "\r\n\r\n" + body;
  }

  test::ScratchFolder folder_;
  std::optional<Models> models_;
  std::optional<HttpServer> server_;  // outlives the service, whose last answers are sent to it
  std::optional<Service> service_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  Status status_;
};

}  // namespace

TEST_F(HttpServerTest, BodiesThatWaitHaveALimitOfMemory) {
  start({.max_body = 1000, .max_buffered = 1000});
  const std::string image = *test::small_image(5).bytes;
  ASSERT_LT(image.size(), 900U);
  {
    const Client holder(server_->port());
    holder.send(request(std::string(900, 'x'), 1000));
    std::string refused;
    // The holder's bytes may arrive after others.
    for (int i = 0; i < 1000 && refused.find(" 503 ") == std::string::npos; ++i) {
      const Client client(server_->port());
      client.send(request(image + std::string(900 - image.size(), 'x'), 1000));
      client.finish_sending();
      refused = client.receive();
    }
    EXPECT_NE(refused.find("HTTP/1.1 503 "), std::string::npos) << refused;
    EXPECT_NE(refused.find("\r\nRetry-After: "), std::string::npos) << refused;
  }
  std::string answer;
  for (int i = 0; i < 1000 && answer.find(" 200 ") == std::string::npos; ++i) {
    const Client client(server_->port());
    client.send(request(image, image.size()));
    answer = client.receive();
  }
  EXPECT_NE(answer.find("HTTP/1.1 200 "), std::string::npos) << answer;
  EXPECT_TRUE(stop().ok());
}

TEST_F(HttpServerTest, ALongBodyIsReadAsOthers) {
  start({});
  const Client client(server_->port());
  client.send(request(std::string(3 << 20, 'x'), 3 << 20));
  EXPECT_NE(client.receive().find("HTTP/1.1 400 "), std::string::npos);
}

TEST_F(HttpServerTest, SlowClientsAreClosed) {
  start({.idle = std::chrono::seconds(1), .transfer = std::chrono::seconds(1)});
  const Client idle(server_->port()), in_header(server_->port()), in_body(server_->port());
  in_header.send("GET /v2 HT");
  in_body.send(request("abc", 1000));
  for (const Client* client : {&idle, &in_header, &in_body}) EXPECT_EQ(client->receive(), "");
}

TEST_F(HttpServerTest, AStopDoesNotWaitForFullBatches) {
  start({}, {.max_batch = 8, .max_delay = std::chrono::hours(1)});
  const Client client(server_->port());
  const std::string image = *test::small_image(5).bytes;
  client.send(request(image, image.size()));
  while (models_->find("m", "").ok() && service_->connections->load() == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(stop().ok());
  const std::string answer = client.receive();
  EXPECT_NE(answer.find("HTTP/1.1 200 "), std::string::npos) << answer;
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos) << answer;
}

}  // namespace dlpipe::serve
