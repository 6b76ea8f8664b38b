// What an address means, and what goes where when a server redirects. tests/interop/read_remote.py asks more of servers.
#include "io/data/sources/bytes/remote.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/text.h"
#include "dlpipe/log.h"
#include "io/data/file_name.h"
#include "io/data/sources/inputs/inputs.h"
#include "tests/base/grouping_locale.h"

namespace dlpipe::data {
namespace {

Result<RemoteRequest> request(const std::string& address,
                              const std::map<std::string, std::string>& set = {}) {
  return request_for(address, [&](const char* name) {
    const auto it = set.find(name);
    return it == set.end() ? std::string() : it->second;
  });
}

TEST(RemoteAddress, WhatIsSecretIsNotShown) {
  EXPECT_EQ(shown_address("https://host/a/b.tar"), "https://host/a/b.tar");
  EXPECT_EQ(shown_address("https://me:secret@host:81/b.tar?X-Amz-Signature=secret#x"),
            "https://host:81/b.tar");
  EXPECT_EQ(shown_address("https://host/@b.tar"), "https://host/@b.tar");
  EXPECT_EQ(shown_address("s3://bucket/a?b@c.tar"), "s3://bucket/a?b@c.tar");
  EXPECT_EQ(shown_address("plain/path?"), "plain/path?");
}

TEST(RemoteAddress, ABucketHasItsHostOrTheEndpointsPath) {
  EXPECT_EQ(request("s3://bucket/a/b c+d.tar")->url,
            "https://bucket.s3.us-east-1.amazonaws.com/a/b%20c%2Bd.tar");
  EXPECT_EQ(request("s3://bucket/a.tar", {{"AWS_DEFAULT_REGION", "eu-central-1"}})->url,
            "https://bucket.s3.eu-central-1.amazonaws.com/a.tar");
  EXPECT_EQ(request("s3://my.bucket/a.tar")->url, "https://s3.us-east-1.amazonaws.com/my.bucket/a.tar");
  EXPECT_EQ(request("s3://bucket/a.tar", {{"AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"}})->url,
            "http://127.0.0.1:9000/bucket/a.tar");
  EXPECT_EQ(request("s3://bucket/a.tar")->signature, "");
  const auto with_keys =
      request("s3://bucket/a.tar", {{"AWS_ACCESS_KEY_ID", "id"}, {"AWS_SECRET_ACCESS_KEY", "key"}});
  EXPECT_EQ(with_keys->signature, "aws:amz:us-east-1:s3");
  EXPECT_EQ(with_keys->shown, "s3://bucket/a.tar");
  EXPECT_NE(request("s3://bucket/a.tar", {{"AWS_ACCESS_KEY_ID", "id"}})
                .status()
                .message()
                .find("SECRET_ACCESS_KEY is not"),
            std::string::npos);
  EXPECT_NE(request("s3://bucket").status().message().find("does not name a file"), std::string::npos);
  EXPECT_NE(request("ftp://me:secret@host/a.tar")
                .status()
                .message()
                .find("ftp://host/a.tar: addresses must begin with"),
            std::string::npos);
}

TEST(RemoteAddress, BracesStandForManyFiles) {
  const std::vector<std::string> given = {"https://me:secret@host/s-{00..02}.tar?sig=secret"};
  const SourceInputs inputs = value_or_throw(expand_inputs(given, "", true));
  ASSERT_EQ(inputs.inputs.size(), 3u);
  EXPECT_EQ(inputs.inputs[2].path, "https://host/s-02.tar");
  EXPECT_EQ(inputs.inputs[2].address, "https://me:secret@host/s-02.tar?sig=secret");
}

TEST(RemoteAddress, ALoginIsNoPartOfTheUrl) {
  EXPECT_EQ(request("https://me:sec%40ret@host:81/b@c.tar?a@b")->url, "https://host:81/b@c.tar?a@b");
  EXPECT_EQ(request("https://me:sec%40ret@host:81/b@c.tar?a@b")->login, "me:sec%40ret");
  EXPECT_EQ(request("https://host/b@c.tar")->login, "");
  EXPECT_EQ(request("https://host?x@y")->url, "https://host?x@y");
}

TEST(RemoteAddress, AnOriginIsSchemeHostAndPortOrNothing) {
  EXPECT_EQ(origin_of("https://Host/a"), "https://host");
  EXPECT_EQ(origin_of("HTTPS://host:443/b?c#d"), "https://host");
  EXPECT_EQ(origin_of("http://host:80"), "http://host");
  EXPECT_EQ(origin_of("http://host:443/"), "http://host:443");
  EXPECT_EQ(origin_of("http://[::1]:8080/a"), "http://[::1]:8080");
  for (const char* odd : {"http://me@host/", "http://evil\\@host/", "http://host\\.evil/", "ftp://host/",
                          "host/a", "http://", "http:///a", "http://ho%73t/"})
    EXPECT_EQ(origin_of(odd), "") << odd;
}

TEST(RemoteAddress, EncryptionIsNotGivenUp) {
  EXPECT_TRUE(drops_encryption("https://host/a", "http://host/a"));
  EXPECT_TRUE(drops_encryption("HTTPS://h\xc3\xb6st/a", "HTTP://host/a"));
  EXPECT_TRUE(drops_encryption("https://host/a", "ftp://host/a"));
  EXPECT_FALSE(drops_encryption("http://host/a", "https://host/a"));
  EXPECT_FALSE(drops_encryption("https://host/a", "HTTPS://other/a"));
  EXPECT_FALSE(drops_encryption("http://host/a", "http://other/a"));
}

/// A server on loopback: each connection brings one request, which `answer` turns into a response.
class LoopbackServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  explicit LoopbackServer(Answer answer)
      : answer_(std::move(answer)), fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ::ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~LoopbackServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  std::string url(const std::string& login = "") const {
    return concat("http://", login, "127.0.0.1:", port_);
  }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    while (true) {
      const int client = ::accept(fd_, nullptr, nullptr);
      if (client < 0) return;
      std::string request;
      std::array<char, 4096> bytes{};
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::read(client, bytes.data(), bytes.size());
        if (got <= 0) break;
        request.append(bytes.data(), static_cast<size_t>(got));
      }
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      const std::string response = answer_(request);
      EXPECT_EQ(::send(client, response.data(), response.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(response.size()));
      // Else as a server that goes on, until the client leaves.
      if (response.find("Connection: close") == std::string::npos)
        while (::read(client, bytes.data(), bytes.size()) > 0) {
        }
      ::close(client);
    }
  }

  Answer answer_;
  int fd_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

std::string redirection(const std::string& to) {
  return concat("HTTP/1.1 302 Found\r\nLocation: ", to, "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

constexpr std::string_view kHello =
    "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

Result<std::string> fetched(const std::string& address) {
  DLPIPE_ASSIGN_OR_RETURN(const auto stream, RemoteStream::open(address, nullptr));
  std::string text;
  std::array<std::byte, 64> bytes{};
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const size_t got, stream->read(bytes));
    if (got == 0) return text;
    text.append(reinterpret_cast<const char*>(bytes.data()), got);
  }
}

class RemoteRedirection : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY", "AWS_ENDPOINT_URL_S3"}) ::unsetenv(name);
    if (RemoteStream::open("http://127.0.0.1/x", nullptr).status().code() == ErrorCode::kUnsupported)
      GTEST_SKIP() << "built without libcurl";
  }
  static void set_keys(const std::string& endpoint) {
    ::setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "top-secret", 1);
    ::setenv("AWS_SESSION_TOKEN", "session-token", 1);
    ::setenv("AWS_ENDPOINT_URL", endpoint.c_str(), 1);
  }
  void TearDown() override {
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"})
      ::unsetenv(name);
  }
  static void expect_no_secrets(const std::string& request) {
    const std::string text = lower_text(request);
    for (const char* secret : {"x-amz-", "authorization", "akidexample", "top-secret", "session-token"})
      EXPECT_EQ(text.find(secret), std::string::npos) << secret << " in\n" << request;
  }
};

TEST_F(RemoteRedirection, NothingMeantForOneOriginReachesAnother) {
  LoopbackServer other([](const std::string&) { return std::string(kHello); });
  LoopbackServer own([&](const std::string&) { return redirection(other.url() + "/elsewhere.tar"); });
  set_keys(own.url());
  EXPECT_EQ(value_or_throw(fetched("s3://bucket/a.tar")), "hello");
  ASSERT_EQ(own.requests().size(), 1u);
  EXPECT_NE(own.requests()[0].find("x-amz-security-token: session-token"), std::string::npos);
  ASSERT_EQ(other.requests().size(), 1u);
  expect_no_secrets(other.requests()[0]);
  EXPECT_EQ(value_or_throw(fetched(own.url("me:top-secret@") + "/a.tar")), "hello");
  EXPECT_NE(own.requests()[1].find("Authorization: Basic"), std::string::npos);
  expect_no_secrets(other.requests()[1]);
}

TEST_F(RemoteRedirection, AnotherServerCannotSendTheKeysBackToTheirOrigin) {
  std::string own_url;
  LoopbackServer other([&](const std::string&) { return redirection(own_url + "/private.tar"); });
  LoopbackServer own([&](const std::string& request) {
    return request.find("/private.tar") == std::string::npos ? redirection(other.url() + "/b.tar")
                                                             : std::string(kHello);
  });
  own_url = own.url();
  set_keys(own.url());
  EXPECT_EQ(value_or_throw(fetched("s3://bucket/a.tar")), "hello");
  ASSERT_EQ(own.requests().size(), 2u);
  expect_no_secrets(own.requests()[1]);
}

TEST_F(RemoteRedirection, WithinAnOriginTheKeysStay) {
  LoopbackServer own([](const std::string& request) {
    return request.find("/moved.tar") == std::string::npos ? redirection("/moved.tar") : std::string(kHello);
  });
  set_keys(own.url());
  EXPECT_EQ(value_or_throw(fetched("s3://bucket/a.tar")), "hello");
  EXPECT_EQ(value_or_throw(fetched(own.url("me:pa%3Ass@") + "/a.tar")), "hello");
  ASSERT_EQ(own.requests().size(), 4u);
  EXPECT_NE(own.requests()[1].find("Authorization: AWS4-HMAC-SHA256"), std::string::npos)
      << own.requests()[1];
  EXPECT_NE(own.requests()[1].find("x-amz-security-token: session-token"), std::string::npos);
  const char* const basic = "Authorization: Basic bWU6cGE6c3M=";  // me:pa:ss
  EXPECT_NE(own.requests()[2].find(basic), std::string::npos) << own.requests()[2];
  EXPECT_NE(own.requests()[3].find(basic), std::string::npos) << own.requests()[3];
}

TEST_F(RemoteRedirection, APartIsAskedForInPlainDigitsWhateverTheProgramsLocaleIs) {
  LoopbackServer own([](const std::string&) {
    return "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes "
           "1234567-1234571/9999999\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
  });
  const test::GroupingLocale grouping;
  const auto stream = value_or_throw(RemoteStream::open(
      own.url() + "/a.tar", nullptr, {.begin = 1234567, .end = 1234572, .validator = "\"1\""}));
  std::array<std::byte, 64> bytes{};
  EXPECT_EQ(value_or_throw(stream->read(bytes)), 5u);
  EXPECT_NE(own.requests()[0].find("Range: bytes=1234567-1234571\r\n"), std::string::npos)
      << own.requests()[0];
}

std::vector<std::string> said;

TEST_F(RemoteRedirection, EachRetryIsSaid) {
  int requests = 0;
  LoopbackServer own([&](const std::string&) {
    return ++requests < 3
               ? "HTTP/1.1 503 Slow Down\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
               : std::string(kHello);
  });
  said.clear();
  const LogFunction before =
      set_log_function([](LogLevel, std::string_view message) { said.emplace_back(message); });
  EXPECT_EQ(value_or_throw(fetched(own.url("me:secret@") + "/a.tar")), "hello");
  set_log_function(before);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0],
            concat("[ingest] ", own.url(), "/a.tar: the server responds with 503; attempt 2 of 8 in 0 s"));
  EXPECT_EQ(said[1],
            concat("[ingest] ", own.url(), "/a.tar: the server responds with 503; attempt 3 of 8 in 0 s"));
}

TEST_F(RemoteRedirection, HeadersWithoutEndAreRefusedAtOnce) {
  std::string many;
  for (int i = 0; i < 140; ++i) many += concat("X-", i, ": ", std::string(1000, 'y'), "\r\n");
  LoopbackServer own(
      [&](const std::string&) { return "HTTP/1.1 200 OK\r\n" + many + "Connection: close\r\n\r\nhello"; });
  EXPECT_EQ(fetched(own.url() + "/a.tar").status().code(), ErrorCode::kIo);
  EXPECT_EQ(own.requests().size(), 1u);
}

TEST_F(RemoteRedirection, TheSameAnswerFourTimesWithoutAByteIsAnError) {
  int requests = 0;
  bool gives_some = false;
  LoopbackServer own([&](const std::string&) {
    const std::string head =
        "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nRetry-After: 0\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
    return head + (++requests == 4 && gives_some ? "hello" : "");
  });
  EXPECT_EQ(fetched(own.url() + "/a.tar").status().code(), ErrorCode::kIo);
  EXPECT_EQ(own.requests().size(), 4u);
  requests = 0;
  gives_some = true;
  EXPECT_EQ(value_or_throw(fetched(own.url() + "/a.tar")), "hello") << "three times may be chance";
}

// As S3 answers where a bucket is in another region: with a page, and no Location.
TEST_F(RemoteRedirection, AWrongRegionIsSaidWithWhatToSet) {
  std::string region = "x-amz-bucket-region: eu-west-1\r\n";
  LoopbackServer own([&](const std::string&) {
    return "HTTP/1.1 301 Moved Permanently\r\n" + region + "Content-Length: 0\r\nConnection: close\r\n\r\n";
  });
  set_keys(own.url());
  const Status told = fetched("s3://bucket/a.tar").status();
  EXPECT_EQ(told.code(), ErrorCode::kIo);
  EXPECT_NE(told.message().find("set AWS_REGION=eu-west-1"), std::string::npos) << told.message();
  region.clear();
  const Status untold = fetched("s3://bucket/a.tar").status();
  EXPECT_NE(untold.message().find("AWS_ENDPOINT_URL"), std::string::npos) << untold.message();
  const Status plain = fetched(own.url() + "/a.tar").status();
  EXPECT_EQ(plain.message().find("AWS"), std::string::npos) << plain.message();
}

TEST_F(RemoteRedirection, ACircleIsSaidAfterElevenRequests) {
  LoopbackServer own([](const std::string&) { return redirection("/a.tar"); });
  const Status status = fetched(own.url() + "/a.tar").status();
  EXPECT_EQ(status.code(), ErrorCode::kIo);
  EXPECT_NE(status.message().find("circle"), std::string::npos) << status.message();
  EXPECT_EQ(own.requests().size(), 11u);
}

TEST_F(RemoteRedirection, APageWithoutEndIsNotReadToItsEnd) {
  const std::string endless = "Content-Length: 1000000000\r\n\r\n" + std::string(100'000, 'x');
  LoopbackServer own([&](const std::string& request) {
    if (request.find("/gone.tar") != std::string::npos) return "HTTP/1.1 404 Not Found\r\n" + endless;
    if (request.find("/moved.tar") != std::string::npos)
      return "HTTP/1.1 302 Found\r\nLocation: /a.tar\r\n" + endless;
    return std::string(kHello);
  });
  EXPECT_EQ(fetched(own.url() + "/gone.tar").status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(value_or_throw(fetched(own.url() + "/moved.tar")), "hello");
}

TEST_F(RemoteRedirection, ToWhatIsNoHttpIsNotFollowed) {
  for (const char* to : {"file:///etc/hostname", "ftp://127.0.0.1/a", "gopher://127.0.0.1/a"}) {
    LoopbackServer own([&](const std::string&) { return redirection(to); });
    EXPECT_EQ(fetched(own.url() + "/a.tar").status().code(), ErrorCode::kIo) << to;
    EXPECT_EQ(own.requests().size(), 1u);
  }
}

}  // namespace
}  // namespace dlpipe::data
