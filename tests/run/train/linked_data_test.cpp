#include "dlpipe/run/train/session/linked_data.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "dlpipe/io/data/dataset.h"
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

// A source of a program's own: a file NAME.mine, which holds the path of a folder with one folder per class.
data::SourceOptions options_of_folder(data::SourceOptions options) {
  std::ifstream(options.path) >> options.path;
  options.known = nullptr;
  return options;
}
const data::SourceRecord kMine = {
    "mine", "a .mine",
    [](const data::SourceOptions& options) { return options.path.ends_with(".mine") ? 9 : 0; },
    [](const data::SourceOptions& options) { return data::open_source(options_of_folder(options)); }};

TEST(LinkedData, ASourceOfTheProgramsOwnIsTrainedOnWithoutAnIngest) {
  const test::ScratchFolder folder;
  const std::string jpegs = test::make_sample_data(folder.path(), 5).jpegs;
  std::ofstream(folder / "pictures.mine") << jpegs << "\n";
  SessionOptions options;
  options.config.data = folder / "pictures.mine";
  EXPECT_THROW(link_pictures(options, folder / "run", {}), Error);  // nobody has added it

  options.registries.sources.add(kMine);
  link_pictures(options, folder / "run", {});
  EXPECT_NE(options.config.data, folder / "pictures.mine");
  const auto dataset = value_or_throw(data::Dataset::open(options.config.data));
  EXPECT_EQ(dataset->size(), 50);
  EXPECT_TRUE(dataset->links().has_value());
}

TEST(LinkedData, PicturesThatWereMovedAreMissedAndAListOfThemIsNot) {
  const test::ScratchFolder folder;
  const std::string jpegs = test::make_sample_data(folder.path(), 5).jpegs;
  std::ofstream(folder / "pictures.mine") << jpegs << "\n";
  SessionOptions options;
  options.config.data = folder / "pictures.mine";
  options.registries.sources.add(kMine);
  link_pictures(options, folder / "run", {});
  const PathOption data{"data", &TrainConfig::data};
  EXPECT_TRUE(check_pictures_are_there(options.config, data).ok());
  std::filesystem::remove(folder / "pictures.mine");
  EXPECT_TRUE(check_pictures_are_there(options.config, data).ok());
  std::filesystem::rename(jpegs, folder / "elsewhere");
  const Status missed = check_pictures_are_there(options.config, data);
  EXPECT_EQ(missed.code(), ErrorCode::kNotFound);
  EXPECT_NE(missed.message().find("say with --data where they are now"), std::string::npos)
      << missed.message();
}

}  // namespace dlpipe::run
