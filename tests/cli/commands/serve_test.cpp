// The server as clients meet it: over a socket on the loopback interface.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "io/formats/json.h"
#include "tests/base/test_file.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"
#include "tests/serve/loopback_socket.h"

namespace dlpipe::test {

using formats::Json;

namespace {

struct Reply {
  int status = 0;  // 0: the connection was closed without an answer
  std::string head = {}, body = {};
  Json json() const {
    auto parsed = Json::parse(body);
    EXPECT_TRUE(parsed.ok()) << body;
    return parsed.ok() ? *parsed : Json();
  }
};

class Client {
 public:
  explicit Client(int port) : socket_(port) {}

  void send(const std::string& text) const { socket_.send(text); }
  /// Waits for an answer with a Content-Length.
  Reply receive() {
    while (text_.find("\r\n\r\n") == std::string::npos)
      if (!more()) return {};
    const size_t head_end = text_.find("\r\n\r\n") + 4;
    Reply reply{.head = text_.substr(0, head_end)};
    reply.status = std::stoi(reply.head.substr(9, 3));
    size_t length = 0;
    const size_t at = reply.head.find("\r\nContent-Length: ");
    if (at != std::string::npos) length = std::stoul(reply.head.substr(at + 18));
    while (text_.size() < head_end + length)
      if (!more()) break;
    reply.body = text_.substr(head_end, length);
    text_.erase(0, head_end + length);
    return reply;
  }
  Reply get(const std::string& path) {
    send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return receive();
  }
  Reply post(const std::string& path, const std::string& body, const std::string& headers = "") {
    send("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "\r\n" + body);
    return receive();
  }

 private:
  bool more() {
    const std::string got = socket_.receive();
    text_ += got;
    return !got.empty();
  }
  LoopbackSocket socket_;
  std::string text_;
};

/// A server that runs until the end of its scope.
class Server {
 public:
  explicit Server(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "serve");
    for (const std::string& one :
         {std::string("--port"), std::string("0"), std::string("--ready-file"), folder_ / "ready"})
      arguments.push_back(one);
    program.emplace(arguments);
    for (int i = 0; i < 6000 && port == 0 && !program->ended(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::string address =
          std::filesystem::exists(folder_ / "ready") ? file_text(folder_ / "ready") : "";
      if (address.ends_with("\n")) port = std::stoi(address.substr(address.rfind(':') + 1));
    }
    EXPECT_GT(port, 0) << (program->ended() ? program->wait().err : "no address");
  }
  Outcome stop() {
    program->send(SIGTERM);
    return program->wait();
  }
  bool is_ready() const { return std::filesystem::exists(folder_ / "ready"); }

  int port = 0;
  std::optional<RunningProgram> program;

 private:
  ScratchDirectory folder_;
};

std::vector<std::string> sample_images() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(trained_run().data.jpegs))
    if (entry.is_regular_file()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string image_tensor(const std::vector<std::string>& images) {
  std::string bytes;
  for (const std::string& image : images) {
    const auto size = static_cast<uint32_t>(image.size());
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += image;
  }
  return bytes;
}

/// The body of a request with binary tensors, and its header.
std::pair<std::string, std::string> binary_request(const std::vector<std::string>& images,
                                                   bool binary_output = false) {
  const std::string tensor = image_tensor(images);
  const Json json = *Json::parse(
      "{\"id\":\"7\",\"parameters\":{\"binary_data_output\":" +
      std::string(binary_output ? "true" : "false") +
      "},\"inputs\":[{\"name\":\"image\",\"datatype\":\"BYTES\",\"shape\":[" + std::to_string(images.size()) +
      "],\"parameters\":{\"binary_data_size\":" + std::to_string(tensor.size()) + "}}]}");
  const std::string text = json.dump();
  return {text + tensor, "Inference-Header-Content-Length: " + std::to_string(text.size()) + "\r\n"};
}

bool is_built_without_server() {
  return run_dlpipe({"info"}).out.find("Boost") == std::string::npos;
}

class Serve : public testing::Test {
 protected:
  void SetUp() override {
    if (is_built_without_server()) GTEST_SKIP() << "built without a server";
  }
};

/// The keys of a section of docs/json.md.
std::set<std::string> documented_keys(const std::string& heading) {
  std::ifstream file(test_file("../docs/json.md"));
  std::set<std::string> keys;
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) is_inside = line == "## `" + heading + "`";
    if (is_inside && line.starts_with("| `")) keys.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return keys;
}

}  // namespace

TEST_F(Serve, AnswersWithPredictsProbabilities) {
  Server server({"m=" + trained_run().run});
  const std::vector<std::string> paths = sample_images();
  const Outcome predicted =
      run_dlpipe({"predict", "--ckpt", trained_run().run, "--top", "100", "--json", paths[0]});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const Json expected = *Json::parse(predicted.out);
  Client client(server.port);
  const Reply reply = client.post("/v2/models/m/infer", file_text(paths[0]), "Content-Type: image/jpeg\r\n");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json answer = reply.json();
  EXPECT_EQ(answer["model_name"].as_string(), "m");
  const Json& probabilities = answer["outputs"].items()[0];
  EXPECT_EQ(probabilities["name"].as_string(), "probabilities");
  EXPECT_EQ(answer["outputs"].items()[1]["data"].items()[0], expected["top"].items()[0]["class"]);
  const Json& top = expected["top"].items()[0];
  double most = 0;
  for (const Json& one : probabilities["data"].items()) most = std::max(most, one.as_double());
  EXPECT_FLOAT_EQ(static_cast<float>(most), static_cast<float>(top["probability"].as_double()));
  const Outcome stopped = server.stop();
  EXPECT_EQ(stopped.exit_code, 0);
  EXPECT_EQ(stopped.err.find("saved"), std::string::npos) << stopped.err;
  EXPECT_FALSE(server.is_ready());
}

TEST_F(Serve, AnAnswersBytesDoNotDependOnTheOtherImages) {
  Server server({"m=" + trained_run().run, "--max-batch", "8", "--max-delay", "20"});
  const std::vector<std::string> paths = sample_images();
  std::vector<std::string> images, alone;
  for (size_t i = 0; i < 8; ++i) images.push_back(file_text(paths[i]));
  Client client(server.port);
  for (const std::string& image : images) {
    const auto [body, header] = binary_request({image}, true);
    const Reply reply = client.post("/v2/models/m/infer", body, header);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const size_t json =
        std::stoul(reply.head.substr(reply.head.find("Inference-Header-Content-Length: ") + 33));
    const int64_t classes =
        (*Json::parse(reply.body.substr(0, json)))["outputs"].items()[0]["shape"].items()[1].as_int();
    alone.push_back(reply.body.substr(json, static_cast<size_t>(classes) * 4));
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < images.size(); ++i) {
    threads.emplace_back([&, i] {
      Client own(server.port);
      for (size_t times = 0; times < 10; ++times) {
        const auto [body, header] =
            binary_request({images[i], images[(i + times) % 8], images[(i * times) % 8]}, true);
        const Reply reply = own.post("/v2/models/m/infer", body, header);
        EXPECT_EQ(reply.status, 200) << reply.body;
        const size_t json =
            std::stoul(reply.head.substr(reply.head.find("Inference-Header-Content-Length: ") + 33));
        EXPECT_EQ(reply.body.substr(json, alone[i].size()), alone[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Serve, SpeaksKServe) {
  Server server({"m=" + trained_run().run});
  Client client(server.port);
  EXPECT_EQ(client.get("/v2/health/live").status, 200);
  EXPECT_EQ(client.get("/v2/health/ready").status, 200);
  EXPECT_EQ(client.get("/v2/models/m/ready").status, 200);
  EXPECT_EQ(client.get("/v2/models/other/ready").status, 503);
  EXPECT_EQ(client.get("/v2").json()["name"].as_string(), "dlpipe");
  const Json model = client.get("/v2/models/m").json();
  EXPECT_EQ(model["inputs"].items()[0]["datatype"].as_string(), "BYTES");
  EXPECT_EQ(model["outputs"].items()[0]["name"].as_string(), "probabilities");
  EXPECT_EQ(client.post("/v2/repository/index", "{}").json().items()[0]["state"].as_string(), "READY");
  const std::string image = file_text(sample_images()[0]);
  const auto [body, header] = binary_request({image, image});
  const Json answer = client.post("/v2/models/m/versions/1/infer", body, header).json();
  EXPECT_EQ(answer["id"].as_string(), "7");
  EXPECT_EQ(answer["outputs"].items()[0]["shape"].items()[0].as_int(), 2);
  const Json stats = client.get("/v2/models/m/stats").json()["model_stats"].items()[0];
  EXPECT_EQ(stats["inference_count"].as_int(), 2);
  EXPECT_EQ(client.post("/v2/repository/models/m/unload", "").status, 200);
  EXPECT_EQ(client.post("/v2/models/m/infer", body, header).status, 404);
  EXPECT_EQ(client.post("/v2/repository/models/m/load", "").status, 200);
  EXPECT_EQ(client.post("/v2/models/m/infer", body, header).status, 200);
  const std::string metrics = client.get("/metrics").body;
  EXPECT_NE(metrics.find("dlpipe_model_images_total{model=\"m\",version=\"1\"} "), std::string::npos)
      << metrics;
}

TEST_F(Serve, BadRequestsGetAnErrorAndHarmNobody) {
  Server server({"m=" + trained_run().run, "--max-body", "1"});
  const std::string image = file_text(sample_images()[0]);
  const auto status = [&](const std::string& path, const std::string& body, const std::string& headers = "") {
    Client client(server.port);
    const Reply reply = client.post(path, body, headers);
    EXPECT_NE(reply.body.find("\"error\""), std::string::npos) << path << " " << reply.body;
    return reply.status;
  };
  const std::string infer = "/v2/models/m/infer", jpeg = "Content-Type: image/jpeg\r\n";
  EXPECT_EQ(status(infer, image.substr(0, 100), jpeg), 400);
  EXPECT_EQ(status(infer, "not an image", jpeg), 400);
  EXPECT_EQ(status(infer, "", jpeg), 400);
  EXPECT_EQ(status(infer, "{"), 400);
  EXPECT_EQ(status(infer, "{}"), 400);
  EXPECT_EQ(
      status(infer, "{\"inputs\":[{\"name\":\"image\",\"datatype\":\"BYTES\",\"shape\":[0],\"data\":[]}]}"),
      400);
  EXPECT_EQ(status(infer,
                   "{\"inputs\":[{\"name\":\"image\",\"datatype\":\"BYTES\",\"shape\":[9223372036854775807,9]"
                   ",\"data\":[]}]}"),
            400);
  EXPECT_EQ(status(infer, "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1]}]}"),
            400);
  EXPECT_EQ(status(infer, "x", "Inference-Header-Content-Length: 99\r\n"), 400);
  EXPECT_EQ(status(infer, "x", "Inference-Header-Content-Length: -1\r\n"), 400);
  EXPECT_EQ(status(infer, image, jpeg + "Content-Encoding: gzip\r\n"), 415);
  EXPECT_EQ(status("/v2/models/none/infer", image, jpeg), 404);
  EXPECT_EQ(status("/somewhere", ""), 405);
  EXPECT_EQ(status(infer, std::string(1100000, 'x'), jpeg), 413);
  Client odd(server.port);
  odd.send("hello\r\n\r\n");
  EXPECT_EQ(odd.receive().status, 400);
  Client slow(server.port);  // it never sends the rest
  slow.send("POST " + infer + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc");
  Client good(server.port);
  EXPECT_EQ(good.post(infer, image, jpeg).status, 200);
  const std::string metrics = good.get("/metrics").body;
  EXPECT_NE(metrics.find("dlpipe_http_requests_total{code=\"413\"} 1\n"), std::string::npos) << metrics;
}

TEST_F(Serve, LoadsAModelAgainWhenItsFileIsReplaced) {
  const ScratchDirectory folder;
  const std::string version = folder / "models/m/3";
  std::filesystem::create_directories(version);
  const auto compile_to = [&](const std::string& path, const std::string& augment) {
    const Outcome outcome = run_dlpipe({"compile", trained_run().run, "-o", path, "--val-augment", augment});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  };
  const std::string size = "32";
  compile_to(folder / "a.dlg", "resize(" + size + "x" + size + ")");
  compile_to(folder / "b.dlg", "resize(" + size + "x" + size + ") hflip(1)");
  std::filesystem::copy_file(folder / "a.dlg", version + "/model.dlg");
  Server server({folder / "models"});
  Client client(server.port);
  const std::string image = file_text(sample_images()[0]);
  const auto answer = [&] {
    return client.post("/v2/models/m/infer", image, "Content-Type: image/jpeg\r\n");
  };
  const Reply before = answer();
  ASSERT_EQ(before.status, 200) << before.body;
  EXPECT_EQ(before.json()["model_version"].as_string(), "3");
  std::ofstream(folder / "broken") << "not a model";
  std::filesystem::rename(folder / "broken", version + "/model.dlg");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(answer().body, before.body);  // the former one stays
  std::filesystem::rename(folder / "b.dlg", version + "/model.dlg");
  for (int i = 0; i < 200 && answer().body == before.body; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_NE(answer().body, before.body);
}

TEST_F(Serve, LogsALineForEachRequest) {
  const ScratchDirectory folder;
  Server server({"m=" + trained_run().run, "--access-log", folder / "log"});
  Client client(server.port);
  EXPECT_EQ(client.get("/v2/models/m?x=\"1\"").status, 200);
  EXPECT_EQ(client.post("/v2/models/none/infer", "x", "Content-Type: image/jpeg\r\n").status, 404);
  Client odd(server.port);
  odd.send("hello\r\n\r\n");
  EXPECT_EQ(odd.receive().status, 400);
  EXPECT_EQ(server.stop().exit_code, 0);
  std::ifstream file(folder / "log");
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(*Json::parse(line));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["path"].as_string(), "/v2/models/m?x=\"1\"");
  EXPECT_EQ(lines[1]["method"].as_string(), "POST");
  EXPECT_EQ(lines[1]["status"].as_int(), 404);
  EXPECT_EQ(lines[2]["status"].as_int(), 400);
  EXPECT_EQ(lines[2]["path"].as_string(), "");
  std::set<std::string> keys = {"dropped_lines"};  // of a full disk
  for (const auto& [key, value] : lines[0].members()) keys.insert(key);
  EXPECT_EQ(keys, documented_keys("dlpipe serve --access-log"));
}

TEST(ServeWithoutBoost, SaysWhatIsMissing) {
  if (!is_built_without_server()) GTEST_SKIP() << "built with a server";
  const Outcome outcome = run_dlpipe({"serve", trained_run().run});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("built without a server"), std::string::npos) << outcome.err;
}

TEST_F(Serve, RefusesWhatItCannotServe) {
  const Outcome none = run_dlpipe({"serve", "/nowhere", "--port", "0"});
  EXPECT_EQ(none.exit_code, 1) << none.err;
  const Outcome same =
      run_dlpipe({"serve", "a=" + trained_run().run, "a=" + trained_run().run, "--port", "0"});
  EXPECT_EQ(same.exit_code, 2) << same.err;
  const Outcome host = run_dlpipe({"serve", trained_run().run, "--host", "nobody", "--port", "0"});
  EXPECT_EQ(host.exit_code, 2) << host.err;
}

}  // namespace dlpipe::test
