// Models by name and version, and what happens when their files change.
#include "serve/models.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/io/formats/scratch.h"
#include "tests/serve/small_model.h"

namespace dlpipe::serve {

namespace fs = std::filesystem;

namespace {

class ModelsTest : public testing::Test {
 protected:
  std::string place(const std::string& path, uint64_t seed = 5) {
    test::write_small_model(folder_ / "next.dlg", seed);
    fs::create_directories(fs::path(folder_ / path).parent_path());
    fs::rename(folder_ / "next.dlg", folder_ / path);
    return folder_ / path;
  }

  static Models::Options options(std::vector<std::string> paths) {
    return {.paths = std::move(paths), .predict = {}, .poll_ms = 5};
  }

  static std::vector<float> answer(const Models& models, const std::string& name) {
    const auto model = models.find(name, "");
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) return {};
    const std::vector<run::ImageFile> images = {test::small_image(50)};
    std::vector<float> answers;
    (*model)->predictor->predict_batch(images, 1, [&](const run::Prediction& one) {
      answers = one.answers;
      return true;
    });
    return answers;
  }

  static std::string names(const Models& models) {
    std::string text;
    for (const auto& model : models.all()) text += model->name + "/" + model->version + " ";
    return text;
  }

  /// Waits for the poller; false if it takes more than a minute.
  static bool becomes(const std::function<bool()>& is_so) {
    for (int i = 0; i < 6000 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return is_so();
  }

  test::ScratchFolder folder_;
};

}  // namespace

TEST_F(ModelsTest, ANameIsThatOfTheFileOrGiven) {
  const std::string path = place("small.dlg");
  const Models models(options({path, "other=" + path}));
  EXPECT_EQ(names(models), "other/1 small/1 ");
  EXPECT_TRUE(models.find("small", "1").ok());
  EXPECT_EQ(models.find("small", "2").status().code(), ErrorCode::kNotFound);
  const auto none = models.find("large", "");
  EXPECT_EQ(none.status().code(), ErrorCode::kNotFound);
  EXPECT_NE(none.status().message().find("there is no model 'large'; there are"), std::string::npos)
      << none.status().message();
}

TEST_F(ModelsTest, TwoModelsWithOneNameAreRefused) {
  const std::string path = place("small.dlg");
  EXPECT_THROW(Models(options({path, path})), Error);
  EXPECT_THROW(Models(options({"a=" + path, "a=" + path})), Error);
}

TEST_F(ModelsTest, WhatIsNotAModelIsRefused) {
  EXPECT_THROW(Models(options({folder_ / "nothing"})), Error);
  fs::create_directories(folder_ / "empty");
  EXPECT_THROW(Models(options({folder_ / "empty"})), Error);
  std::ofstream(folder_ / "text.dlg") << "text";
  EXPECT_THROW(Models(options({folder_ / "text.dlg"})), Error);
}

TEST_F(ModelsTest, ARepositoryHasVersions) {
  place("all/a/2/model.dlg", 1);
  place("all/a/10/model.dlg", 2);
  place("all/b/1/anything.dlg", 3);
  fs::create_directories(folder_ / "all/a/notes");
  fs::create_directories(folder_ / "all/.hidden/1");
  std::ofstream(folder_ / "all/README") << "text";
  Models models(options({folder_ / "all"}));
  EXPECT_EQ(names(models), "a/10 a/2 b/1 ");
  EXPECT_EQ((*models.find("a", ""))->version, "10");  // the highest number, not text
  EXPECT_EQ((*models.find("a", "2"))->version, "2");
  EXPECT_EQ(models.versions("a").size(), 2U);
  EXPECT_EQ((*models.find("a", ""))->metadata(models.versions("a"))["outputs"].items()[0]["shape"].dump(),
            "[-1,7]");
}

TEST_F(ModelsTest, FollowsItsFiles) {
  place("all/a/1/model.dlg", 1);
  Models models(options({folder_ / "all"}));
  const std::vector<float> before = answer(models, "a");
  place("all/a/1/model.dlg", 2);
  EXPECT_TRUE(becomes([&] { return answer(models, "a") != before; }));
  place("all/a/2/model.dlg", 1);
  EXPECT_TRUE(becomes([&] { return (*models.find("a", ""))->version == "2"; }));
  EXPECT_EQ(answer(models, "a"), before);
  place("all/b/1/model.dlg", 1);
  EXPECT_TRUE(becomes([&] { return models.find("b", "").ok(); }));
  fs::remove_all(folder_ / "all/a");
  EXPECT_TRUE(becomes([&] { return !models.find("a", "").ok(); }));
  EXPECT_EQ(names(models), "b/1 ");
  fs::remove_all(folder_ / "all/b");
  EXPECT_TRUE(becomes([&] { return models.all().empty(); }));
  EXPECT_EQ(models.index().items().size(), 0U);  // no model called "all"
  place("all/c/1/model.dlg", 1);
  EXPECT_TRUE(becomes([&] { return names(models) == "c/1 "; }));
}

TEST_F(ModelsTest, ABrokenFileLeavesTheFormerModel) {
  place("all/a/1/model.dlg", 1);
  Models models(options({folder_ / "all"}));
  const std::vector<float> before = answer(models, "a");
  std::ofstream(folder_ / "broken") << "text";
  fs::rename(folder_ / "broken", folder_ / "all/a/1/model.dlg");
  EXPECT_TRUE(becomes([&] { return models.failed_reloads() > 0; }));
  EXPECT_EQ(answer(models, "a"), before);
  EXPECT_EQ(models.failed_reloads(), 1);  // and not again at each look
  EXPECT_FALSE(models.load("a").ok());    // the client learns that it was not loaded
  EXPECT_EQ(answer(models, "a"), before);
  fs::remove(folder_ / "all/a/1/model.dlg");
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(answer(models, "a"), before);
  }
  place("all/a/1/model.dlg", 2);
  EXPECT_TRUE(becomes([&] { return answer(models, "a") != before; }));
  EXPECT_TRUE(models.load("a").ok());
}

TEST_F(ModelsTest, ABrokenNewVersionIsListedWithItsReason) {
  place("all/a/1/model.dlg", 1);
  Models models(options({folder_ / "all"}));
  fs::create_directories(folder_ / "all/a/2");
  std::ofstream(folder_ / "all/a/2/model.dlg") << "text";
  EXPECT_TRUE(becomes([&] { return models.index().items().size() == 2; }));
  EXPECT_EQ((*models.find("a", ""))->version, "1");
  const formats::Json two = models.index().items()[1];
  EXPECT_EQ(two["state"].as_string(), "UNAVAILABLE");
  EXPECT_NE(two["reason"].as_string(), "");
}

TEST_F(ModelsTest, UnloadsAndLoads) {
  Models models(options({"a=" + place("a.dlg"), "b=" + place("b.dlg")}));
  const std::shared_ptr<const ServedModel> held = *models.find("a", "");
  EXPECT_TRUE(models.unload("a").ok());
  EXPECT_EQ(names(models), "b/1 ");
  EXPECT_EQ(models.index().items()[0]["reason"].as_string(), "unloaded");
  place("a.dlg", 2);  // does not bring it back
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(names(models), "b/1 ");
  EXPECT_TRUE(models.unload("a").ok());
  EXPECT_TRUE(models.load("a").ok());
  EXPECT_EQ(names(models), "a/1 b/1 ");
  EXPECT_NE(*models.find("a", ""), held);
  EXPECT_EQ(models.unload("c").code(), ErrorCode::kNotFound);
  EXPECT_EQ(models.load("c").code(), ErrorCode::kNotFound);
}

TEST_F(ModelsTest, CountersOutliveAReload) {
  Models models(options({"a=" + place("a.dlg")}));
  (*models.find("a", ""))->counters->requests = 7;
  EXPECT_TRUE(models.load("a").ok());
  EXPECT_EQ((*models.find("a", ""))->counters->requests, 7);
}

// Idle connections can take all descriptors. Folders can then not be listed, and seem to be empty.
TEST_F(ModelsTest, StayWhileThereAreNoDescriptors) {
  place("all/a/1/model.dlg");
  Models models(options({folder_ / "all", "b=" + place("b.dlg")}));
  rlimit former{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &former), 0);
  const rlimit none = {0, former.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::string served = names(models);
  ::setrlimit(RLIMIT_NOFILE, &former);
  EXPECT_EQ(served, "a/1 b/1 ");
  EXPECT_EQ(models.failed_reloads(), 0);
}

}  // namespace dlpipe::serve
