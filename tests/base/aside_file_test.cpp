#include "base/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace dlpipe {
namespace {

namespace fs = std::filesystem;

class AsideFileTest : public testing::Test {
 protected:
  AsideFileTest() {
    std::string name = (fs::temp_directory_path() / "dlpipe_aside_XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~AsideFileTest() override {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(directory_)) all.insert(entry.path().filename().string());
    return all;
  }
  static std::string text_of(const std::string& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  }
  std::string directory_;
};

using Create = Result<AsideFile> (*)(std::string_view, const std::string&);
constexpr Create kBoth[] = {AsideFile::create, AsideFile::create_named};

TEST_F(AsideFileTest, AppearsWholeOrNotAtAll) {
  for (const Create create : kBoth) {
    std::ofstream(path("a")) << "old";
    {
      AsideFile file = value_or_throw(create("test", path("a")));
      throw_if_error(file.append(bytes_of("half")));
      EXPECT_EQ(text_of(path("a")), "old");
    }
    EXPECT_EQ(text_of(path("a")), "old");
    EXPECT_EQ(names(), std::set<std::string>{"a"});
    AsideFile file = value_or_throw(create("test", path("a")));
    throw_if_error(file.append(bytes_of("new")));
    throw_if_error(file.publish());
    EXPECT_EQ(text_of(path("a")), "new");
    EXPECT_EQ(names(), std::set<std::string>{"a"});
  }
}

TEST_F(AsideFileTest, WritesNothingButItsPathWhateverLiesBesideIt) {
  std::ofstream(path("victim")) << "mine";
  fs::create_symlink("victim", path("a.partial"));
  fs::create_symlink("victim", path("a.new"));
  std::ofstream(path("b.partial")) << "mine";
  fs::create_directory(path("c.partial"));
  for (const Create create : kBoth) {
    for (const char* name : {"a", "b", "c"}) {
      AsideFile file = value_or_throw(create("test", path(name)));
      throw_if_error(file.append(bytes_of("new")));
      throw_if_error(file.publish());
      EXPECT_EQ(text_of(path(name)), "new");
    }
  }
  EXPECT_EQ(text_of(path("victim")), "mine");
  EXPECT_EQ(text_of(path("b.partial")), "mine");
  EXPECT_EQ(names(),
            (std::set<std::string>{"a", "a.new", "a.partial", "b", "b.partial", "c", "c.partial", "victim"}));
}

// A pipe would wait for its reader, a link would write elsewhere.
TEST_F(AsideFileTest, ReplacesAPipeAndALinkAtItsPath) {
  std::ofstream(path("victim")) << "mine";
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink("victim", path("link"));
  for (const char* name : {"pipe", "link"}) {
    AsideFile file = value_or_throw(AsideFile::create("test", path(name)));
    throw_if_error(file.append(bytes_of("new")));
    throw_if_error(file.publish());
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path(name))));
    EXPECT_EQ(text_of(path(name)), "new");
  }
  EXPECT_EQ(text_of(path("victim")), "mine");
}

TEST_F(AsideFileTest, KeepsThePermissionsOfTheFileThatItReplaces) {
  const mode_t mask = ::umask(022);
  const auto mode_of = [](const std::string& file) {
    struct stat stat {};
    EXPECT_EQ(::lstat(file.c_str(), &stat), 0) << file;
    return stat.st_mode & 07777;
  };
  for (const Create create : kBoth) {
    for (const mode_t mode : {0600u, 0664u, 0444u}) {
      std::ofstream(path("a")) << "old";
      ASSERT_EQ(::chmod(path("a").c_str(), mode), 0);
      AsideFile file = value_or_throw(create("test", path("a")));
      throw_if_error(file.append(bytes_of("new")));
      for (const std::string& name : names())
        EXPECT_TRUE(name == "a" || (mode_of(path(name)) & 077) == 0) << name << " while it is written";
      throw_if_error(file.publish());
      EXPECT_EQ(text_of(path("a")), "new");
      EXPECT_EQ(mode_of(path("a")), mode);
      ASSERT_EQ(::unlink(path("a").c_str()), 0);
    }
    AsideFile file = value_or_throw(create("test", path("b")));
    throw_if_error(file.publish());
    EXPECT_EQ(mode_of(path("b")), 0644u) << "of a new one";
    ASSERT_EQ(::unlink(path("b").c_str()), 0);
  }
  ::umask(mask);
}

TEST_F(AsideFileTest, TheLongestNameOfAFileDoes) {
  const std::string longest(255, 'n');
  for (const Create create : kBoth) {
    AsideFile file = value_or_throw(create("test", path(longest)));
    throw_if_error(file.publish());
    EXPECT_EQ(names(), std::set<std::string>{longest});
  }
}

TEST_F(AsideFileTest, AKillLeavesNothingOrANameThatCanBeTold) {
  for (const Create create : kBoth) {
    const pid_t child = ::fork();
    if (child == 0) {
      AsideFile file = value_or_throw(create("test", path("a")));
      throw_if_error(file.append(bytes_of("half")));
      ::raise(SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
    EXPECT_FALSE(fs::exists(path("a")));
  }
  const std::set<std::string> left = names();
  ASSERT_GE(left.size(), 1u);
  EXPECT_LE(left.size(), 2u)
      << "one of create_named(), and one where the file system has no files without a name";
  for (const std::string& name : left) EXPECT_TRUE(is_aside_name(name)) << name;
  EXPECT_FALSE(is_aside_name(".dlpipe-partial"));
  EXPECT_FALSE(is_aside_name("a.partial"));
}

TEST_F(AsideFileTest, ALinkIsReplacedInOneStepAndNothingElseIs) {
  std::ofstream(path("last.partial")) << "mine";
  throw_if_error(replace_by_link("test", path("last"), "step-1"));
  throw_if_error(replace_by_link("test", path("last"), "step-2"));
  EXPECT_EQ(fs::read_symlink(path("last")), "step-2");
  EXPECT_EQ(names(), (std::set<std::string>{"last", "last.partial"}));
}

}  // namespace
}  // namespace dlpipe
