// What kind a path is, and the error where another kind is wanted.
#include "run/input/path_kind.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/io/formats/scratch.h"
#include "tests/run/sample_data.h"

namespace dlpipe::run {

namespace fs = std::filesystem;

class PathKindTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::string refused(const std::string& path, Wanted wanted) const {
    const Status status = refuse_other_kind("area", path, wanted);
    EXPECT_EQ(status.code(), ErrorCode::kMisuse) << path;
    return status.message();
  }

  test::ScratchFolder folder_;
};

TEST_F(PathKindTest, KindsAreToldByWhatIsThere) {
  file("a_run/config.toml", "");
  fs::create_directories(folder_ / "a_run/checkpoints/best");
  file("a_run/checkpoints/best/state.json", "{}");
  file("set/train/data.mdb", "");
  file("set/val/data.mdb", "");
  file("images/ring/1.JPG", "");
  file("saved_to_disk/state.json", "{}");  // of Hugging Face's datasets
  file("saved_to_disk/dataset_info.json", "{}");
  file("saved_to_disk/data-00000-of-00001.arrow", "");
  const std::pair<std::string, std::string> kinds[] = {
      {folder_ / "a_run", "a run"},
      {folder_ / "a_run/", "a run"},
      {folder_ / "a_run/checkpoints", "a checkpoint"},
      {folder_ / "a_run/checkpoints/best", "a checkpoint"},
      {folder_ / "a_run/checkpoints/best/state.json", "a checkpoint"},
      {folder_ / "set/train", "a dataset"},
      {folder_ / "set", "a dataset"},
      {folder_ / "images", "a folder of images"},
      {file("m.onnx", "\x08\x0a\x12\x07pytorch"), "an ONNX model"},
      {file("w.safetensors", std::string("\x36\0\0\0\0\0\0\0", 8) +
                                 R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"
                                 "1234"),
       "a file of weights"},
      {file("w.pth", "PK\3\4......archive/data.pkl"), "a file of weights"},
      {file("checkpoint.pth.tar", "PK\3\4......archive/data.pkl"), "a file of weights"},
      {file("old.pth.tar", std::string("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9", 9)), "a file of weights"},
      {file("p", "\xff\xd8\xff\xe0"), "an image"},
      {file("recipe.toml", "epochs = 3"), "a config file"},
      {file("shards.tar", ""), "raw data"},
      {file("a.npz", "PK\3\4"), "raw data"},
      {file("a.npy", "\x93NUMPY"), "raw data"},
      {"resnet18", "the name of a model"},
  };
  for (const auto& [path, name] : kinds) {
    const auto kind = kind_of(path);
    ASSERT_TRUE(kind) << path;
    EXPECT_EQ(kind->name, name) << path;
  }
  fs::create_directories(folder_ / "empty");
  const std::string cut = file("cut.safetensors", std::string("\x20\0\0\0\0\0\0\0{\"a\":{\"dtype\"", 22));
  for (const std::string& unknown :
       {folder_ / "empty", folder_ / "saved_to_disk", folder_ / "not there", cut,
        file("images.zip", "PK\3\4"), file("notes.odt", "PK\3\4"), std::string(), std::string("-")})
    EXPECT_FALSE(kind_of(unknown)) << unknown << " is " << kind_of(unknown)->name;
}

TEST_F(PathKindTest, AnotherKindIsRefusedWithTheCommandThatTakesIt) {
  file("a run/config.toml", "");
  fs::create_directories(folder_ / "a run/checkpoints");
  const std::string run = folder_ / "a run", word = "'" + run + "'";
  EXPECT_TRUE(
      refused(run, Wanted::kDataset)
          .starts_with("[area] " + run + " is a run, not a dataset; `dlpipe info " + word + "` shows"))
      << refused(run, Wanted::kDataset);
  EXPECT_TRUE(refused(run, Wanted::kCompiledModel)
                  .ends_with("not a compiled model; `dlpipe compile " + word + " -o model.dlg` compiles it"))
      << refused(run, Wanted::kCompiledModel);
  EXPECT_TRUE(refuse_other_kind("area", run, Wanted::kModel).ok());
  EXPECT_TRUE(refuse_other_kind("area", run, Wanted::kRun).ok());
  EXPECT_TRUE(refuse_other_kind("area", folder_ / "not there", Wanted::kRun).ok()) << "opening it says so";
}

TEST_F(PathKindTest, ARunsFilesDoNotHideADataset) {
  for (const std::string run : {"set", "splits", "run"}) {
    file(run + "/config.toml", "");
    fs::create_directories(folder_ / (run + "/checkpoints"));
  }
  file("set/data.mdb", "");
  file("splits/val/data.mdb", "");
  file("run/linked/data.mdb", "");
  for (const char* both : {"set", "splits"}) {
    EXPECT_TRUE(refuse_other_kind("area", folder_ / both, Wanted::kDataset).ok()) << both;
    EXPECT_TRUE(refuse_other_kind("area", folder_ / both, Wanted::kRun).ok()) << both;
  }
  EXPECT_NE(refused(folder_ / "run", Wanted::kDataset).find(" is a run, not a dataset"), std::string::npos)
      << "its links are the run's own";
}

TEST_F(PathKindTest, WhatAnIngestMakesIsADatasetAndItsImagesAreNot) {
  const test::SampleData data = test::make_sample_data(folder_.path(), 10);
  EXPECT_TRUE(is_kind(data.train, Wanted::kDataset));
  EXPECT_TRUE(is_kind(data.split, Wanted::kDataset));
  EXPECT_TRUE(is_kind(data.split, Wanted::kRawData)) << "Caffe's look the same; ingest tells";
  EXPECT_TRUE(is_kind(data.jpegs, Wanted::kRawData));
  EXPECT_FALSE(is_kind(data.jpegs, Wanted::kDataset));
}

}  // namespace dlpipe::run
