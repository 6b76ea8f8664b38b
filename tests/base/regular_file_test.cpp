#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace dlpipe {
namespace {

class RegularFileTest : public testing::Test {
 protected:
  RegularFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "dlpipe_file_XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~RegularFileTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string directory_;
};

TEST_F(RegularFileTest, OpensFilesAndLinksToThem) {
  std::ofstream(path("a")) << "hello";
  std::filesystem::create_symlink("a", path("link"));
  for (const char* name : {"a", "link"}) {
    const RegularFile file = value_or_throw(RegularFile::open("test", path(name)));
    EXPECT_EQ(file.stamp().size_bytes, 5u);
    EXPECT_EQ(file.stamp(), value_or_throw(stamp_regular_file("test", path(name))));
    EXPECT_TRUE(file.is_unchanged());
    std::ofstream(path("a"), std::ios::app) << "x";
    EXPECT_FALSE(file.is_unchanged());
    std::ofstream(path("a")) << "hello";
  }
  EXPECT_EQ(RegularFile::open("test", path("none")).status().code(), ErrorCode::kNotFound);
}

TEST_F(RegularFileTest, WhatGrowsIsMadeAndKeepsWhatItHas) {
  for (const char* text : {"a", "b"}) {
    const RegularFile file =
        value_or_throw(RegularFile::open_to_write("test", path("log"), O_WRONLY | O_APPEND));
    ASSERT_EQ(::write(file.fd(), text, 1), 1);
  }
  std::string text;
  std::ifstream(path("log")) >> text;
  EXPECT_EQ(text, "ab");
}

TEST_F(RegularFileTest, WhatGrowsIsNoLinksTarget) {
  std::ofstream(path("precious")) << "mine";
  ASSERT_EQ(::symlink(path("precious").c_str(), path("log").c_str()), 0);
  for (const int how : {O_RDWR, O_WRONLY | O_APPEND, O_WRONLY | O_TRUNC}) {
    const Status status = RegularFile::open_to_write("test", path("log"), how).status();
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
    EXPECT_NE(status.message().find("is a link"), std::string::npos) << status.message();
  }
  std::string text;
  std::ifstream(path("precious")) >> text;
  EXPECT_EQ(text, "mine");
}

// Opening a pipe that nobody writes to would wait for ever.
TEST_F(RegularFileTest, RefusesPipesSocketsDevicesAndFoldersByName) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  for (const auto& [file, kind] :
       {std::pair(path("pipe"), "a pipe"), std::pair(path("socket"), "a socket"),
        std::pair(std::string("/dev/zero"), "a device"), std::pair(directory_, "a folder")}) {
    const Status status = RegularFile::open("test", file).status();
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(status.message(),
              "[test] " + file + " is " + kind + ", not a regular file; give the path of a file");
    EXPECT_EQ(stamp_regular_file("test", file).status().message(), status.message());
    for (const int how : {O_RDWR, O_WRONLY | O_APPEND, O_WRONLY | O_TRUNC})
      EXPECT_EQ(RegularFile::open_to_write("test", file, how).status().message(), status.message());
  }
}

}  // namespace
}  // namespace dlpipe
