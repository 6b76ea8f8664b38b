#include "dlpipe/run/use/picture_list.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/io/data/temp_dir.h"

namespace dlpipe::run {
namespace {

TEST(PictureList, ALinkToNothingInAFolderIsAFileThatCannotBeUsed) {
  data::TempDir dir;
  data::write_text(dir / "a/1.jpg", "x");
  std::filesystem::create_symlink("gone.jpg", dir / "a/2.jpg");
  std::filesystem::create_symlink("gone", dir / "more");
  const std::vector<std::string> paths = {dir.path()};
  const PictureList list = value_or_throw(list_pictures(paths));
  ASSERT_EQ(list.files.size(), 2u);
  EXPECT_EQ(list.files[0].path, dir / "a/1.jpg");
  EXPECT_EQ(list.files[0].problem, "");
  EXPECT_EQ(list.files[1].path, dir / "a/2.jpg");
  EXPECT_EQ(list.files[1].problem, "[predict] it is a link to gone.jpg, which isn't there");
  EXPECT_EQ(list.left_aside, "links to nothing, which may have been folders of pictures: 'more'");
}

}  // namespace
}  // namespace dlpipe::run
