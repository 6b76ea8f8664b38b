// What an address means. tests/interop/read_remote.py asks servers.
#include "dlpipe/io/data/sources/bytes/remote.h"

#include <gtest/gtest.h>

#include <map>

#include "dlpipe/io/data/sources/bytes/remote_address.h"
#include "dlpipe/io/data/sources/inputs/inputs.h"

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
  EXPECT_NE(request("s3://bucket").status().message().find("names no file"), std::string::npos);
  EXPECT_NE(
      request("ftp://me:secret@host/a.tar").status().message().find("ftp://host/a.tar: addresses begin with"),
      std::string::npos);
}

TEST(RemoteAddress, BracesStandForManyFiles) {
  const std::vector<std::string> given = {"https://me:secret@host/s-{00..02}.tar?sig=secret"};
  const SourceInputs inputs = value_or_throw(expand_inputs(given, "", true));
  ASSERT_EQ(inputs.inputs.size(), 3u);
  EXPECT_EQ(inputs.inputs[2].path, "https://host/s-02.tar");
  EXPECT_EQ(inputs.inputs[2].address, "https://me:secret@host/s-02.tar?sig=secret");
}

}  // namespace
}  // namespace dlpipe::data
