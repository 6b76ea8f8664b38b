#include "dlpipe/run/train/linked_data.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/io/formats/scratch.h"
#include "tests/run/sample_data.h"

namespace dlpipe::run {

// As when a process has as many files open as it may.
TEST(LinkedData, ADatasetThatCannotBeListedIsNotTakenForPictures) {
  const test::ScratchFolder folder;
  SessionOptions options;
  options.config.data = test::make_sample_data(folder.path(), 5).split;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string said;
  try {
    link_pictures(options, folder.path() + "/run", {});
  } catch (const Error& error) {
    said = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(said.find("cannot list " + options.config.data), std::string::npos) << said;
}

}  // namespace dlpipe::run
