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

TEST(PictureList, AFolderWithoutPicturesIsNamedBesideOthers) {
  data::TempDir dir;
  data::write_text(dir / "a/1.jpg", "x");
  data::write_text(dir / "notes/list.txt", "x");
  data::write_text(dir / "run/config.toml", "");
  std::filesystem::create_directory(dir / "run/checkpoints");
  const std::vector<std::string> paths = {dir / "a", dir / "notes", dir / "run"};
  const PictureList list = value_or_throw(list_pictures(paths));
  ASSERT_EQ(list.files.size(), 3u);
  EXPECT_EQ(list.files[0].path, dir / "a/1.jpg");
  EXPECT_EQ(list.files[1].path, dir / "notes");
  EXPECT_EQ(list.files[1].problem, "[predict] there is no picture in this folder");
  EXPECT_EQ(list.files[2].path, dir / "run");
  EXPECT_TRUE(list.files[2].problem.starts_with("[predict] it is a run and no picture; "))
      << list.files[2].problem;
  EXPECT_NE(list.left_aside.find("1 x .txt"), std::string::npos) << list.left_aside;
  // Of nothing else than these there is no answer at all.
  const std::vector<std::string> none = {dir / "notes", dir / "run"};
  const Status nothing = list_pictures(none).status();
  EXPECT_EQ(nothing.code(), ErrorCode::kNotFound);
  EXPECT_NE(nothing.message().find("no picture in what was given"), std::string::npos) << nothing.message();
}

}  // namespace
}  // namespace dlpipe::run
