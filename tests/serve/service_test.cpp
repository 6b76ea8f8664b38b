// What requests are answered, without sockets.
#include "serve/service.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/io/formats/scratch.h"
#include "tests/serve/small_model.h"

namespace dlpipe::serve {

using formats::Json;

namespace {

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() : models_(options()), service_({.scheduler = {.max_batch = 4, .max_images = 8}}, models_) {}

  Models::Options options() {
    test::write_small_model(folder_ / "m.dlg");
    return {.paths = {"m=" + folder_ / "m.dlg"}, .predict = {}};
  }

  HttpResponse ask(HttpRequest request) {
    std::promise<HttpResponse> promise;
    service_.handle(std::move(request),
                    [&](HttpResponse&& response) { promise.set_value(std::move(response)); });
    return promise.get_future().get();
  }
  HttpResponse get(const std::string& target) { return ask({.method = "GET", .target = target}); }
  HttpResponse infer(const std::string& json, const std::string& tail = {}) {
    return ask({.method = "POST",
                .target = "/v2/models/m/infer",
                .json_bytes = std::to_string(json.size()),
                .body = json + tail});
  }

  /// The JSON of a request with `count` images in `tail`; `more`: members.
  static std::pair<std::string, std::string> images(size_t count, const std::string& more = {}) {
    std::string tail;
    for (size_t i = 0; i < count; ++i) {
      const std::string image = *test::small_image(static_cast<uint8_t>(i)).bytes;
      const auto size = static_cast<uint32_t>(image.size());
      tail.append(reinterpret_cast<const char*>(&size), sizeof size);
      tail += image;
    }
    return {"{" + more + "\"inputs\":[{\"name\":\"image\",\"datatype\":\"BYTES\",\"shape\":[" +
                std::to_string(count) +
                "],\"parameters\":{\"binary_data_size\":" + std::to_string(tail.size()) + "}}]}",
            tail};
  }

  test::ScratchFolder folder_;
  Models models_;
  Service service_;
};

}  // namespace

TEST_F(ServiceTest, AddressesAreReadAsUrls) {
  EXPECT_EQ(get("/v2/models/m/ready").status, 200);
  EXPECT_EQ(get("/v2/models/%6d/ready").status, 200);
  EXPECT_EQ(get("/v2/models/m/ready?x=1").status, 200);
  EXPECT_EQ(get("//v2//models/m/ready/").status, 200);
  // Escapes that are cut off, or not hexadecimal, are bytes like others.
  for (const std::string target :
       {"", "/", "*", "%", "/%", "/%4", "/%41", "/%zz", "/v2/models/%", "/v2/models/%4",
        "/v2/models/m/%72eady%", "/v2/models/m/infer/more", "/v2/models/m/versions",
        "/v2/models/m/versions/1/2/3", "/v2/repository/index/"})
    EXPECT_GE(get(target).status, 400) << target;
  EXPECT_EQ(get("/v2/models/%00%0d%0a\xff").status, 404);
  EXPECT_EQ(get("/v2/models/" + std::string(10'000, '/')).status, 404);
}

TEST_F(ServiceTest, MethodsAreThoseOfTheProtocol) {
  EXPECT_EQ(get("/v2/models/m/infer").status, 405);
  EXPECT_EQ(get("/v2/repository/index").status, 405);
  EXPECT_EQ(ask({.method = "POST", .target = "/v2/models/m"}).status, 405);
  EXPECT_EQ(ask({.method = "DELETE", .target = "/v2/models/m/infer"}).status, 405);
  EXPECT_EQ(ask({.method = "HEAD", .target = "/v2/health/live"}).status, 200);
  EXPECT_EQ(ask({.method = "POST", .target = "/v2/repository/models/none/load"}).status, 404);
  EXPECT_EQ(ask({.method = "POST", .target = "/v2/repository/models/m"}).status, 404);
}

TEST_F(ServiceTest, TimeoutsOfAnySizeAreAccepted) {
  for (const std::string timeout : {"0", "60000000", "9223372036854775807", "9223372036854775"}) {
    const auto [json, tail] = images(1, "\"parameters\":{\"timeout\":" + timeout + "},");
    const HttpResponse response = infer(json, tail);
    EXPECT_EQ(response.status, 200) << timeout << " " << response.body;
  }
}

TEST_F(ServiceTest, ARequestThatNeverFitsIsNotSentAgain) {
  const auto [json, tail] = images(8);
  EXPECT_EQ(infer(json, tail).status, 200);
  const auto [more, more_tail] = images(9);
  const HttpResponse response = infer(more, more_tail);
  EXPECT_EQ(response.status, 400) << response.body;
  EXPECT_NE(response.body.find("at most 8"), std::string::npos) << response.body;
}

TEST_F(ServiceTest, AnErrorNamesTheImage) {
  const std::string tail("\3\0\0\0abc", 7);
  const HttpResponse response = infer(
      "{\"inputs\":[{\"name\":\"image\",\"datatype\":\"BYTES\",\"shape\":[1],\"parameters\":{\"binary_data_"
      "size\":7}}]}",
      tail);
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("image 0"), std::string::npos) << response.body;
}

TEST_F(ServiceTest, OutputsAreChosen) {
  const auto [json, tail] = images(2, "\"outputs\":[{\"name\":\"label\"}],");
  const auto answer = Json::parse(infer(json, tail).body);
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ((*answer)["outputs"].items().size(), 1U);
  EXPECT_EQ((*answer)["outputs"].items()[0]["data"].items().size(), 2U);
  const auto [wrong, wrong_tail] = images(1, "\"outputs\":[{\"name\":\"logits\"}],");
  EXPECT_EQ(infer(wrong, wrong_tail).status, 400);
}

TEST_F(ServiceTest, DrainingIsNotReady) {
  EXPECT_EQ(get("/v2/health/ready").status, 200);
  service_.begin_drain();
  EXPECT_EQ(get("/v2/health/ready").status, 503);
  EXPECT_EQ(get("/v2/health/live").status, 200);
  const auto [json, tail] = images(1);
  EXPECT_EQ(infer(json, tail).status, 200);
}

// Models are loaded and unloaded while others are used and asked about.
TEST_F(ServiceTest, AnswersWhileModelsAreLoaded) {
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(ask({.method = "POST", .target = "/v2/repository/models/m/load"}).status, 200);
    }
  });
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      const auto [json, tail] = images(3);
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(infer(json, tail).status, 200);
        EXPECT_EQ(get("/metrics").status, 200);
        EXPECT_EQ(get("/v2/models/stats").status, 200);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dlpipe::serve
