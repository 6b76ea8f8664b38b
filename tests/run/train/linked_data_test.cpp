#include "run/train/session/linked_data.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "dlpipe/dataset.h"
#include "tests/io/formats/scratch.h"
#include "tests/run/sample_data.h"

namespace dlpipe::run {

// As when a process has as many files open as it may.
TEST(LinkedData, ADatasetThatCannotBeListedIsNotTakenForImages) {
  const test::ScratchFolder folder;
  SessionOptions options;
  options.config.data = test::make_sample_data(folder.path(), 5).split;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string said;
  try {
    link_images(options, folder.path() + "/run");
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
  std::ofstream(folder / "images.mine") << jpegs << "\n";
  SessionOptions options;
  options.config.data = folder / "images.mine";
  EXPECT_THROW(link_images(options, folder / "run"), Error);  // nobody has added it

  options.registries.sources.add(kMine);
  options = link_images(options, folder / "run");
  EXPECT_NE(options.config.data, folder / "images.mine");
  const auto dataset = value_or_throw(data::Dataset::open(options.config.data));
  EXPECT_EQ(dataset->size(), 50);
  EXPECT_TRUE(dataset->links().has_value());
}

// Train and val are both the run's.
TEST(LinkedData, OtherImagesThanARunBeganWithDoNotReplaceItsLinks) {
  namespace fs = std::filesystem;
  const test::ScratchFolder folder;
  const std::string jpegs = test::make_sample_data(folder.path(), 5).jpegs;
  const auto images = [&](const std::string& name) {
    for (const char* split : {"/train", "/val"}) {
      fs::create_directories(folder / name);
      fs::copy(jpegs, folder / name + split, fs::copy_options::recursive);
    }
    return folder / name;
  };
  const auto id_of = [](const std::string& dataset) {
    return value_or_throw(data::Dataset::open(dataset))->id();
  };
  const auto link_to = [&](const std::string& data, const TrainConfig& run) {
    SessionOptions options;
    options.config = run;
    options.config.data = data;
    return link_images(options, folder / "run").config;
  };
  TrainConfig run = link_to(images("first"), {});
  const std::string val_id = id_of(run.data + "/val");
  run.record["data-id"] = id_of(run.data + "/train");
  run.record["val-id"] = val_id;

  const std::string other = images("other");
  fs::remove(other + "/val/disc/00003.jpg");
  try {
    link_to(other, run);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(other + " holds dataset "), std::string::npos) << error.what();
  }
  EXPECT_EQ(id_of(run.data + "/val"), val_id);
  EXPECT_FALSE(fs::exists(run.data + ".new"));
  fs::remove_all(other + "/val");
  EXPECT_THROW(link_to(other, run), Error);
  EXPECT_EQ(id_of(run.data + "/val"), val_id);

  const std::string copied = images("copied");
  link_to(copied, run);
  const auto val = value_or_throw(data::Dataset::open(run.data, "val"));
  EXPECT_EQ(value_or_throw(value_or_throw(val->reader())->linked_file(0)).find(copied), 0u);
}

TEST(LinkedData, ImagesThatWereMovedAreMissedAndAListOfThemIsNot) {
  const test::ScratchFolder folder;
  const std::string jpegs = test::make_sample_data(folder.path(), 5).jpegs;
  std::ofstream(folder / "images.mine") << jpegs << "\n";
  SessionOptions options;
  options.config.data = folder / "images.mine";
  options.registries.sources.add(kMine);
  options = link_images(options, folder / "run");
  const PathOption data{"data", &TrainConfig::data};
  EXPECT_TRUE(check_images_are_there(options.config, data).ok());
  std::filesystem::remove(folder / "images.mine");
  EXPECT_TRUE(check_images_are_there(options.config, data).ok());
  std::filesystem::rename(jpegs, folder / "elsewhere");
  const Status missed = check_images_are_there(options.config, data);
  EXPECT_EQ(missed.code(), ErrorCode::kNotFound);
  EXPECT_NE(missed.message().find("give their current place with --data"), std::string::npos)
      << missed.message();
}

}  // namespace dlpipe::run
