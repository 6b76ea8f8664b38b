#include "io/data/partial_directory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(PartialDirectory, BecomesTheDestinationWithoutTheNote) {
  TempDir dir;
  auto partial = value_or_throw(PartialDirectory::claim("export", dir / "deep/out/"));
  EXPECT_FALSE(partial.was_there());
  ASSERT_TRUE(partial.write("a/b.txt", bytes_of("hello")).ok());
  const Status again = partial.write("a/b.txt", bytes_of("other"));
  EXPECT_NE(again.message().find("File exists"), std::string::npos) << again.message();
  EXPECT_FALSE(fs::exists(dir / "deep/out"));
  ASSERT_TRUE(partial.publish().ok());
  EXPECT_EQ(file_text(dir / "deep/out/a/b.txt"), "hello");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "deep/out"), {}), 1);
  EXPECT_FALSE(fs::exists(dir / "deep/out.partial"));
}

TEST(PartialDirectory, IsFreeOnceItsOwnerHasGoneWhateverAForkedChildHolds) {
  TempDir dir;
  std::optional<PartialDirectory> partial = value_or_throw(PartialDirectory::claim("export", dir / "out"));
  ASSERT_TRUE(partial->write("a", bytes_of("x")).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_FALSE(PartialDirectory::claim("export", dir / "out").ok());
  partial.reset();
  EXPECT_TRUE(PartialDirectory::claim("export", dir / "out").ok());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(PartialDirectory, FilesThatAKillLeftHalfPublishedAreNoPartOfTheDestination) {
  TempDir dir;
  const std::string left = ".dlpipe-0123456789abcdef.partial";
  {
    const auto killed = value_or_throw(PartialDirectory::claim("export", dir / "out"));
    ASSERT_TRUE(killed.write("train/a", bytes_of("x")).ok());
    ASSERT_TRUE(killed.write(left, bytes_of("y")).ok());
    ASSERT_TRUE(killed.write("train/" + left, bytes_of("y")).ok());
  }
  auto resumed = value_or_throw(PartialDirectory::claim("export", dir / "out"));
  EXPECT_TRUE(resumed.was_there());
  ASSERT_TRUE(resumed.publish().ok());
  EXPECT_EQ(file_text(dir / "out/train/a"), "x");
  EXPECT_FALSE(fs::exists(dir / ("out/" + left)));
  EXPECT_FALSE(fs::exists(dir / ("out/train/" + left)));
}

TEST(PartialDirectory, WhatAnInterruptedOneLeftIsTakenOver) {
  TempDir dir;
  {
    ASSERT_TRUE(
        value_or_throw(PartialDirectory::claim("export", dir / "out")).write("a", bytes_of("x")).ok());
  }
  fs::rename(dir / "out.partial", dir / "aside");  // moved elsewhere together with its place
  fs::create_directories(dir / "elsewhere");
  fs::rename(dir / "aside", dir / "elsewhere/out.partial");
  auto partial = value_or_throw(PartialDirectory::claim("export", dir / "elsewhere/out"));
  EXPECT_TRUE(partial.was_there());
  EXPECT_TRUE(fs::exists(dir / "elsewhere/out.partial/a"));
  ASSERT_TRUE(partial.clear().ok());
  EXPECT_FALSE(fs::exists(dir / "elsewhere/out.partial/a"));
  ASSERT_TRUE(partial.remove().ok());
  EXPECT_FALSE(fs::exists(dir / "elsewhere/out.partial"));
}

TEST(PartialDirectory, WhatIsNotOursIsRefusedAndStays) {
  TempDir dir;
  const auto refusal = [&](const std::string& kind) {
    const auto claimed = PartialDirectory::claim(kind, dir / "out");
    EXPECT_EQ(claimed.status().code(), ErrorCode::kMisuse);
    return claimed.status().message();
  };
  write_text(dir / "out.partial/thesis.txt", "three years");
  EXPECT_NE(refusal("export").find(dir / "out.partial exists and was not made by dlpipe"), std::string::npos)
      << refusal("export");
  write_text(dir / "out.partial/.dlpipe-partial", "");
  EXPECT_NE(refusal("export").find("was not made by dlpipe"), std::string::npos);
  EXPECT_EQ(file_text(dir / "out.partial/thesis.txt"), "three years");
  fs::remove_all(dir / "out.partial");
  // Another command's, and one that was renamed to this name.
  { ASSERT_TRUE(PartialDirectory::claim("ingest", dir / "out").ok()); }
  EXPECT_NE(refusal("export").find("belongs to an interrupted `dlpipe ingest`"), std::string::npos)
      << refusal("export");
  fs::remove_all(dir / "out.partial");
  { ASSERT_TRUE(PartialDirectory::claim("export", dir / "other").ok()); }
  fs::rename(dir / "other.partial", dir / "out.partial");
  EXPECT_NE(refusal("export").find("belongs to an interrupted `dlpipe export`"), std::string::npos);
  fs::remove_all(dir / "out.partial");
  // A file, and a link to somebody's folder.
  write_text(dir / "out.partial", "a file");
  EXPECT_NE(refusal("export").find("is not a folder"), std::string::npos);
  fs::remove(dir / "out.partial");
  fs::create_directories(dir / "somebody");
  fs::create_directory_symlink(dir / "somebody", dir / "out.partial");
  EXPECT_NE(refusal("export").find("is not a folder"), std::string::npos);
}

TEST(PartialDirectory, AnEmptyFolderAndAHalfWrittenNoteCanBeTaken) {
  TempDir dir;
  write_text(dir / "out.partial/.dlpipe-0123456789abcdef.partial", "dlp");
  EXPECT_TRUE(PartialDirectory::claim("export", dir / "out").ok());
}

TEST(PartialDirectory, APipeOrALinkInThePlaceOfTheNoteIsSomebodyElses) {
  TempDir dir;
  write_text(dir / "victim", "dlpipe export\nout\n");
  fs::create_directories(dir / "out.partial");
  ASSERT_EQ(::mkfifo((dir / "out.partial/.dlpipe-partial").c_str(), 0600), 0);
  EXPECT_EQ(PartialDirectory::claim("export", dir / "out").status().code(), ErrorCode::kMisuse);
  fs::remove(dir / "out.partial/.dlpipe-partial");
  fs::create_symlink(dir / "victim", dir / "out.partial/.dlpipe-partial");
  EXPECT_EQ(PartialDirectory::claim("export", dir / "out").status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(file_text(dir / "victim"), "dlpipe export\nout\n");
}

TEST(PartialDirectory, ADestinationThatCameMeanwhileIsNotReplaced) {
  TempDir dir;
  auto partial = value_or_throw(PartialDirectory::claim("export", dir / "out"));
  fs::create_directories(dir / "out");
  const Status status = partial.publish();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_NE(status.message().find("was created in the meantime"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace dlpipe::data
