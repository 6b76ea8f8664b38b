#include "io/formats/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "base/machine.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::formats {

using test::ScratchFolder;

TEST(AtomicFile, AppearsWholeAtCommitOnly) {
  ScratchFolder folder;
  const std::string path = folder / "a.txt";
  ASSERT_TRUE(write_file(path, "old").ok());
  {
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(file->append("new ").ok());
    EXPECT_EQ(*read_file(path), "old");
    ASSERT_TRUE(file->append("content").ok());
    ASSERT_TRUE(file->commit().ok());
  }
  EXPECT_EQ(*read_file(path), "new content");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

// `-o /dev/stdout` behind `>> FILE`: nothing can lie beside it or be renamed to it, and the file keeps what it has.
TEST(AtomicFile, WhatIsOpenAlreadyIsWrittenStraightInto) {
  ScratchFolder folder;
  ASSERT_TRUE(write_file(folder / "a.txt", "old ").ok());
  const int fd = ::open((folder / "a.txt").c_str(), O_WRONLY | O_CLOEXEC);
  const std::string name = "/dev/fd/" + std::to_string(fd);
  EXPECT_TRUE(is_stream(name));
  EXPECT_TRUE(is_stream("/dev/stdout"));
  EXPECT_FALSE(is_stream(folder / "a.txt"));
  EXPECT_FALSE(is_stream(folder / "not there"));
  EXPECT_FALSE(is_stream(folder.path()));
  const Status written = write_output(name, "new");
  EXPECT_TRUE(written.ok()) << written.message();
  ::close(fd);
  EXPECT_EQ(*read_file(folder / "a.txt"), "old new");
}

TEST(AtomicFile, APipeIsWrittenStraightIntoAndStays) {
  ScratchFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const Status written = write_output(pipe, "text");
  EXPECT_TRUE(written.ok()) << written.message();
  std::array<char, 16> got{};
  EXPECT_EQ(::read(reader, got.data(), got.size()), 4);
  EXPECT_STREQ(got.data(), "text");
  ::close(reader);
  EXPECT_TRUE(is_stream(pipe));
}

// What dlpipe itself names, a receipt, a table of kernels, is never waited for.
TEST(AtomicFile, APipeInThePlaceOfAFileOfOursIsReplaced) {
  ScratchFolder folder;
  ASSERT_EQ(::mkfifo((folder / "receipt.json").c_str(), 0600), 0);
  ASSERT_TRUE(write_file(folder / "receipt.json", "{}").ok());
  EXPECT_EQ(*read_file(folder / "receipt.json"), "{}");
}

TEST(AtomicFile, WithoutCommitTheOldContentStaysAndNothingIsLeftBehind) {
  ScratchFolder folder;
  const std::string path = folder / "a.txt";
  ASSERT_TRUE(write_file(path, "old").ok());
  {
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->append("half").ok());
  }
  EXPECT_EQ(*read_file(path), "old");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

// Tests of base/file.h say more.
TEST(AtomicFile, OfAFileCalledPartialNothingIsWritten) {
  ScratchFolder folder;
  const std::string path = folder / "m.dlg";
  ASSERT_TRUE(write_file(folder / "victim", "mine").ok());
  std::filesystem::create_symlink("victim", path + ".partial");
  ASSERT_TRUE(write_output(path, "x").ok());
  EXPECT_EQ(*read_file(path), "x");
  EXPECT_EQ(*read_file(folder / "victim"), "mine");
}

TEST(AtomicFile, ALinkOfTheUsersIsFollowed) {
  ScratchFolder folder;
  std::filesystem::create_directory(folder / "volume");
  ASSERT_TRUE(write_file(folder / "volume/m.dlg", "old").ok());
  std::filesystem::create_symlink("volume/m.dlg", folder / "latest.dlg");
  std::filesystem::create_symlink("volume/new.dlg", folder / "next.dlg");  // there is no such file yet
  for (const char* name : {"latest.dlg", "next.dlg"}) {
    ASSERT_TRUE(write_output(folder / name, "x").ok());
    EXPECT_TRUE(std::filesystem::is_symlink(folder / name));
  }
  EXPECT_EQ(*read_file(folder / "volume/m.dlg"), "x");
  EXPECT_EQ(*read_file(folder / "volume/new.dlg"), "x");
}

TEST(AtomicFile, AFullDiskKeepsTheOldFile) {
  ScratchFolder folder;
  const std::string path = folder / "a.txt";
  ASSERT_TRUE(write_file(path, "old").ok());
  // A limit on file sizes stands in for a full disk: write() fails the same way, with another errno.
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_file(path, std::string(5000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("a.txt"), std::string::npos);
  EXPECT_EQ(*read_file(path), "old");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(AtomicFile, NamesTheFileThatCannotBeWritten) {
  const Status status = write_file("/nonexistent/folder/a.txt", "x");
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_EQ(
      status.message(),
      "[file] cannot create /nonexistent/folder/a.txt: there is no folder /nonexistent/folder; create it "
      "first");
  ScratchFolder folder;
  ASSERT_TRUE(write_file(folder / "a", "x").ok());
  const Status below_a_file = write_file(folder / "a/b.txt", "x");
  EXPECT_NE(below_a_file.message().find("cannot create " + (folder / "a/b.txt") + ": "), std::string::npos)
      << below_a_file.message();
}

// Before work is done whose result would be lost at commit().
TEST(AtomicFile, AFolderIsRefusedAtOnce) {
  ScratchFolder folder;
  std::filesystem::create_directory(folder / "a");
  std::filesystem::create_directory_symlink(folder / "a", folder / "link");
  for (const std::string& path : {folder / "a", folder / "a/", folder / "link"}) {
    const Status status = AtomicFile::create(path).status();
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    EXPECT_EQ(status.message(),
              "[file] cannot create " + path + ": it is a folder; add the name of the file to write");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "a"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.partial"));
}

TEST(ReadFile, RefusesAFileLargerThanTheLimit) {
  ScratchFolder folder;
  ASSERT_TRUE(write_file(folder / "a", std::string(100'000, 'x')).ok());
  EXPECT_EQ(read_file(folder / "a", 99'999).status().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(read_file(folder / "a", 100'000)->size(), 100'000u);
}

TEST(ReadFile, AFileLargerThanTheMemoryIsRefusedBeforeItIsRead) {
  ScratchFolder folder;
  ASSERT_TRUE(write_file(folder / "sparse", "x").ok());
  const uint64_t size = available_memory_bytes() + 1;
  std::filesystem::resize_file(folder / "sparse", size);
  EXPECT_EQ(read_file(folder / "sparse", 2 * size).status().code(), ErrorCode::kUnsupported);
}

}  // namespace dlpipe::formats
