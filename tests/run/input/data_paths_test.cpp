#include "run/input/dataset.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/io/formats/scratch.h"
#include "tests/run/sample_data.h"

namespace dlpipe::run {

namespace fs = std::filesystem;

class DataPathsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<test::ScratchFolder>();
    data_ = test::make_sample_data(folder_->path(), 5);
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static std::unique_ptr<test::ScratchFolder> folder_;
  static test::SampleData data_;
};
std::unique_ptr<test::ScratchFolder> DataPathsTest::folder_;
test::SampleData DataPathsTest::data_;

TEST_F(DataPathsTest, TrainingTakesTheDatasetOrTheSplitsTrain) {
  EXPECT_EQ(*training_data(data_.split), data_.train);
  EXPECT_EQ(*training_data(data_.train), data_.train);
}

TEST_F(DataPathsTest, ValidationIsGivenOrBesideTheTrainingData) {
  EXPECT_EQ(*validation_data(data_.split, ""), data_.val);
  EXPECT_EQ(*validation_data(data_.train, ""), data_.val);
  EXPECT_EQ(*validation_data(data_.train + "/", ""), data_.val);
  EXPECT_EQ(*validation_data(data_.train, data_.split), data_.val);
  EXPECT_EQ(*validation_data(data_.split, data_.train), data_.train);
}

TEST_F(DataPathsTest, ADatasetAloneHasNone) {
  const std::string alone = *folder_ / "alone";
  fs::copy(data_.train, alone, fs::copy_options::recursive);
  EXPECT_EQ(*validation_data(alone, ""), "");
}

TEST_F(DataPathsTest, AFolderOfOtherDatasetsNamesThem) {
  const std::string parts = *folder_ / "parts";
  fs::create_directories(parts);
  fs::copy(data_.val, parts + "/val", fs::copy_options::recursive);
  const auto train = training_data(parts);
  ASSERT_FALSE(train.ok());
  EXPECT_NE(train.status().message().find("holds val but no 'train'; give "), std::string::npos)
      << train.status().message();
}

TEST_F(DataPathsTest, AnEvaluationNamesTheSplitsThatAreThere) {
  const std::string parts = *folder_ / "judged";
  fs::create_directories(parts);
  fs::copy(data_.val, parts + "/test", fs::copy_options::recursive);
  const auto said = [&](const std::string& split) {
    return evaluation_data(parts, split).status().message();
  };
  EXPECT_NE(said("").find("holds test but no 'val'; give --split test"), std::string::npos) << said("");
  EXPECT_NE(said("tset").find("no 'tset'; did you mean --split test?"), std::string::npos) << said("tset");
  EXPECT_NE(said("holdout").find("; give --split test"), std::string::npos) << said("holdout");
}

TEST_F(DataPathsTest, ARunIsNoDataset) {
  const std::string run = fs::path(data_.train).parent_path() / "a_run";
  fs::create_directories(run + "/checkpoints");
  std::ofstream(run + "/config.toml") << "";
  for (const Status& status :
       {training_data(run).status(), evaluation_data(run, "").status(), validation_data("", run).status()}) {
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    EXPECT_NE(status.message().find(" is a run, not a dataset; `dlpipe info "), std::string::npos)
        << status.message();
  }
}

TEST_F(DataPathsTest, ColourImagesHaveThreeChannels) {
  EXPECT_EQ(*image_channels(data_.train), 3);
  EXPECT_FALSE(image_channels("/nonexistent").ok());
}

TEST_F(DataPathsTest, WhatAModelTakesAndADatasetHoldsMustBeOneKind) {
  EXPECT_TRUE(check_input_kind("lenet", false, "d", 3).ok());
  EXPECT_TRUE(check_input_kind("gpt_char", true, "d", 0).ok());
  const Status tokens = check_input_kind("gpt_char", true, "d", 3);
  EXPECT_EQ(tokens.code(), ErrorCode::kMisuse);
  EXPECT_NE(tokens.message().find("takes sequences of tokens, but d contains images"), std::string::npos);
  EXPECT_FALSE(check_input_kind("lenet", false, "d", 0).ok());
}

}  // namespace dlpipe::run
