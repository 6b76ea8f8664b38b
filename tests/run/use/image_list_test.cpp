#include "run/use/image_list.h"
#include "dlpipe/predictor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <utility>

#include "tests/io/data/temp_dir.h"

namespace dlpipe::run {
namespace {

TEST(ImageList, ALinkToNothingInAFolderIsAFileThatCannotBeUsed) {
  data::TempDir dir;
  data::write_text(dir / "a/1.jpg", "x");
  std::filesystem::create_symlink("gone.jpg", dir / "a/2.jpg");
  std::filesystem::create_symlink("gone", dir / "more");
  const std::vector<std::string> paths = {dir.path()};
  const ImageList list = value_or_throw(list_images(paths));
  ASSERT_EQ(list.files.size(), 2u);
  EXPECT_EQ(list.files[0].path, dir / "a/1.jpg");
  EXPECT_EQ(list.files[0].problem, "");
  EXPECT_EQ(list.files[1].path, dir / "a/2.jpg");
  EXPECT_EQ(list.files[1].problem, "[predict] it is a link to gone.jpg, which does not exist");
  EXPECT_EQ(list.left_aside, "broken links, which may have been folders of images: 'more'");
}

TEST(ImageList, AFolderWithoutImagesIsNamedBesideOthers) {
  data::TempDir dir;
  data::write_text(dir / "a/1.jpg", "x");
  data::write_text(dir / "notes/list.txt", "x");
  data::write_text(dir / "run/config.toml", "");
  std::filesystem::create_directory(dir / "run/checkpoints");
  const std::vector<std::string> paths = {dir / "a", dir / "notes", dir / "run"};
  const ImageList list = value_or_throw(list_images(paths));
  ASSERT_EQ(list.files.size(), 3u);
  EXPECT_EQ(list.files[0].path, dir / "a/1.jpg");
  EXPECT_EQ(list.files[1].path, dir / "notes");
  EXPECT_EQ(list.files[1].problem, "[predict] there is no image in this folder");
  EXPECT_EQ(list.files[2].path, dir / "run");
  EXPECT_TRUE(list.files[2].problem.starts_with("[predict] it is a run, not an image; "))
      << list.files[2].problem;
  EXPECT_NE(list.left_aside.find("1 x .txt"), std::string::npos) << list.left_aside;
  // Of nothing else than these there is no answer at all.
  const std::vector<std::string> none = {dir / "notes", dir / "run"};
  const Status nothing = list_images(none).status();
  EXPECT_EQ(nothing.code(), ErrorCode::kNotFound);
  EXPECT_NE(nothing.message().find("there is no image in the given paths"), std::string::npos)
      << nothing.message();
}

/// A pipe that the test writes into.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~Pipe() {
    end();
    ::close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reader() const { return ends_[0]; }
  void say(std::string_view text) {
    ASSERT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void end() {
    if (ends_[1] >= 0) ::close(std::exchange(ends_[1], -1));
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

std::vector<std::string> paths_of(const std::vector<ImageFile>& files) {
  std::vector<std::string> paths;
  for (const ImageFile& file : files) paths.push_back(file.path);
  return paths;
}
using Paths = std::vector<std::string>;

TEST(ImageStream, GivesWhatIsThereAndFillsBatches) {
  Pipe pipe;
  auto stream = value_or_throw(ImageStream::open({"before.jpg", "-", "after.jpg"}, pipe.reader()));
  pipe.say(
      "\xef\xbb\xbf"
      "a.jpg\r\nb.jpg\n\nc.jp");
  EXPECT_EQ(paths_of(value_or_throw(stream.next(2))), (Paths{"before.jpg", "a.jpg"}));
  EXPECT_EQ(paths_of(value_or_throw(stream.next(8))), Paths{"b.jpg"}) << "the input pauses within a line";
  pipe.say("g\nd.jpg");
  pipe.end();
  EXPECT_EQ(paths_of(value_or_throw(stream.next(8))), (Paths{"c.jpg", "d.jpg", "after.jpg"}));
  EXPECT_TRUE(value_or_throw(stream.next(8)).empty());
}

/// All that is found on standard input, of which each read gives `piece` bytes.
std::vector<ImageFile> files_in(std::string_view input, size_t piece) {
  std::array<int, 2> ends{-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  for (size_t at = 0; at < input.size(); at += piece) {
    const std::string_view part = input.substr(at, piece);
    EXPECT_EQ(::write(ends[1], part.data(), part.size()), static_cast<ssize_t>(part.size()));
  }
  ::close(ends[1]);
  auto stream = value_or_throw(ImageStream::open({"-"}, ends[0]));
  std::vector<ImageFile> all;
  while (true) {
    std::vector<ImageFile> some = value_or_throw(stream.next(8));
    if (some.empty()) break;
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  ::close(ends[0]);
  return all;
}

// By what the input holds, whatever comes at once.
TEST(ImageStream, WhatEndsTheFirstPathEndsAll) {
  for (const size_t piece : {1u, 3u, 100u}) {
    SCOPED_TRACE(piece);
    EXPECT_EQ(paths_of(files_in(std::string_view("c.jpg\0a\nb.jpg\0d.jpg", 20), piece)),
              (Paths{"c.jpg", "a\nb.jpg", "d.jpg"}));
    EXPECT_EQ(paths_of(files_in(std::string_view("a\nb.jpg\0c.jpg\nd", 15), piece)),
              (Paths{"a", std::string("b.jpg\0c.jpg", 11), "d"}));
  }
}

TEST(ImageStream, OneImageIsReadWhole) {
  const std::string_view begins[] = {
      "\xff\xd8\xff\xe0",
      "\x89PNG\r\n\x1a\n",
      {"RIFF\n\0\0\0WEBP", 12},
      {"BM\n\0\0\0\0\0\0\0\x36\0\0\0", 14},
      "P6\n2 2\n255\n",
      "P5 # a\n2 2\n255\n",
      "P4# a\n2 2\n",
      {"\0\0\0 ftypavif\0\0\0\0", 16},
      {"\0\0\0\x0cJXL \r\n\x87\n", 12},
      "\xff\n",
  };
  for (const std::string_view begin : begins) {
    const std::string image = std::string(begin) + std::string(50, '\n');
    for (const size_t piece : {1u, 7u, 5000u}) {
      const std::vector<ImageFile> files = files_in(image, piece);
      ASSERT_EQ(files.size(), 1u) << begin;
      EXPECT_EQ(files[0].path, "-");
      EXPECT_EQ(files[0].bytes, image);
    }
  }
}

TEST(ImageStream, PathsThatBeginAsImagesDoArePaths) {
  for (const char* path : {"BMW/1.jpg", "BM", "P6", "P6.jpg", "RIFF.jpg", "GIF"}) {
    const std::string input = std::string(path) + "\nb.jpg\n";
    EXPECT_EQ(paths_of(files_in(input, 1)), (Paths{path, "b.jpg"}));
    EXPECT_EQ(paths_of(files_in(input, 100)), (Paths{path, "b.jpg"}));
  }
}

TEST(ImageStream, RefusesWhatHoldsNoPaths) {
  EXPECT_EQ(ImageStream::open({"-", "-"}, 0).status().code(), ErrorCode::kMisuse);
  Pipe nothing;
  nothing.end();
  auto empty = value_or_throw(ImageStream::open({"-"}, nothing.reader()));
  EXPECT_EQ(empty.next(8).status().code(), ErrorCode::kNotFound);
  data::TempDir dir;
  data::write_text(dir / "line", std::string(2 << 20, 'x'));
  const int line = ::open((dir / "line").c_str(), O_RDONLY | O_CLOEXEC);
  auto endless = value_or_throw(ImageStream::open({"-"}, line));
  EXPECT_EQ(endless.next(8).status().code(), ErrorCode::kUnsupported);
  ::close(line);
}

}  // namespace
}  // namespace dlpipe::run
