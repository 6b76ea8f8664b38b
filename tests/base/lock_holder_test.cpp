#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace dlpipe {

TEST(LockHolder, NamesTheProcessThatHoldsTheFileAndNobodyElse) {
  std::string path = std::filesystem::temp_directory_path() / "dlpipe_lock_XXXXXX";
  const int holder = ::mkstemp(path.data());
  ASSERT_GE(holder, 0);
  const int other = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(lock_holder(other), "another process") << "nobody holds it";
  ASSERT_EQ(::flock(holder, LOCK_EX), 0);
  const std::string said = lock_holder(other);
  if (std::filesystem::exists("/proc/locks")) {
    EXPECT_EQ(said.find("process " + std::to_string(::getpid()) + " ("), 0U) << said;
  }
  ::close(holder);
  EXPECT_EQ(lock_holder(other), "another process");
  EXPECT_EQ(lock_holder(-1), "another process");
  ::close(other);
  std::filesystem::remove(path);
}

}  // namespace dlpipe
